#include "common/train/scheduled_passes.hpp"

#include "common/comm/comm_error.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

template <class E>
void throw_in_place(const E& error, const std::string& place) {
  try {
    throw E(error);
  } catch (...) {
    rethrow_with_place(place);
  }
}

template <class E>
std::string message_after(const E& error, const std::string& place) {
  return test::message_of<E>([&] { throw_in_place(error, place); });
}

TEST(ErrorPlace, StandsBehindTheMessageOfEveryKindOfErrorOfOurs) {
  EXPECT_EQ(message_after(ConfigError("words"), "stage 1"), "words [stage 1]");
  EXPECT_EQ(message_after(ShapeError("words"), "stage 1"), "words [stage 1]");
  EXPECT_EQ(message_after(FileError("words"), "stage 1"), "words [stage 1]");
  EXPECT_EQ(message_after(NumericError("words"), "stage 1"), "words [stage 1]");
  EXPECT_EQ(message_after(OutOfMemory("words"), "stage 1"), "words [stage 1]");
  EXPECT_EQ(message_after(InternalError("words"), "stage 1"), "words [stage 1]");
  EXPECT_EQ(message_after(CommTimeout("words"), "stage 1"), "words [stage 1]");
  EXPECT_EQ(message_after(CommMismatch("words"), "stage 1"), "words [stage 1]");
  EXPECT_EQ(message_after(Deadlock("words"), "stage 1"), "words [stage 1]");
}

TEST(ErrorPlace, OfARankThatDiedIsWhereTheOthersWaited) {
  const RankFailed killed(2, ErrorKind::kComm, "words");
  EXPECT_EQ(message_after(killed, "stage 1"), "words [stage 1]");
  try {
    throw_in_place(killed, "stage 1");
  } catch (const RankFailed& failed) {
    EXPECT_EQ(failed.failed_rank(), 2);
    EXPECT_EQ(failed.kind(), ErrorKind::kComm);
  }
}

TEST(ErrorPlace, IsLeftOutWhereTheErrorSaysEnough) {
  EXPECT_EQ(message_after(ConfigError("words"), ""), "words");
  EXPECT_EQ(message_after(RankFailed(2, ErrorKind::kBadInput, "words"), "stage 1"), "words");
  const NotWritten not_written("07.1 some list");
  EXPECT_EQ(message_after(not_written, "stage 1"), not_written.what());
  EXPECT_EQ(message_after(std::runtime_error("words"), "stage 1"), "words");
}

}  // namespace
}  // namespace ultra::train
