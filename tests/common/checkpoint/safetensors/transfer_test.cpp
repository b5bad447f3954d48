#include "common/checkpoint/safetensors/transfer.hpp"

#include <cerrno>

#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

using Call = std::pair<std::size_t, std::size_t>;  // done, left

TEST(TransferAll, IsOneCallWhenItMovesAll) {
  std::vector<Call> calls;
  const TransferResult result = transfer_all(10, [&](std::size_t done, std::size_t left) {
    calls.emplace_back(done, left);
    return ssize_t{10};
  });
  EXPECT_EQ(calls, (std::vector<Call>{{0, 10}}));
  EXPECT_EQ(result.done, 10U);
  EXPECT_EQ(result.error, 0);
}

TEST(TransferAll, CallsNothingForNothing) {
  const TransferResult result = transfer_all(0, [](std::size_t, std::size_t) -> ssize_t {
    ADD_FAILURE() << "there is nothing to move";
    return 0;
  });
  EXPECT_EQ(result.done, 0U);
  EXPECT_EQ(result.error, 0);
}

TEST(TransferAll, GoesOnAfterAShortCall) {
  std::vector<Call> calls;
  const TransferResult result = transfer_all(10, [&](std::size_t done, std::size_t left) {
    calls.emplace_back(done, left);
    return static_cast<ssize_t>(std::min<std::size_t>(4, left));
  });
  EXPECT_EQ(calls, (std::vector<Call>{{0, 10}, {4, 6}, {8, 2}}));
  EXPECT_EQ(result.done, 10U);
}

TEST(TransferAll, RepeatsWhatASignalInterrupts) {
  std::vector<Call> calls;
  const TransferResult result = transfer_all(6, [&](std::size_t done, std::size_t left) {
    calls.emplace_back(done, left);
    if (calls.size() % 2 == 1) {
      errno = EINTR;
      return ssize_t{-1};
    }
    return ssize_t{3};
  });
  EXPECT_EQ(calls, (std::vector<Call>{{0, 6}, {0, 6}, {3, 3}, {3, 3}}));
  EXPECT_EQ(result.done, 6U);
  EXPECT_EQ(result.error, 0);
}

TEST(TransferAll, StopsAtAnErrorAndSaysHowFarItCame) {
  const TransferResult result = transfer_all(10, [](std::size_t done, std::size_t) {
    if (done == 0) return ssize_t{7};
    errno = ENOSPC;
    return ssize_t{-1};
  });
  EXPECT_EQ(result.done, 7U);
  EXPECT_EQ(result.error, ENOSPC);
}

TEST(TransferAll, StopsWhereTheFileEnds) {
  errno = EIO;  // of an earlier call: must not count
  const TransferResult result = transfer_all(
      10, [](std::size_t done, std::size_t) { return done == 0 ? ssize_t{7} : ssize_t{0}; });
  EXPECT_EQ(result.done, 7U);
  EXPECT_EQ(result.error, 0);
}

}  // namespace
}  // namespace ultra::checkpoint
