// Errors and interrupts.
// Covers: common/base/interrupt.hpp

#include "common/base/errors.hpp"

#include <csignal>
#include <source_location>

#include "common/base/interrupt.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

TEST(NotWritten, NamesTheExerciseAndTheCommandThatHelps) {
  const std::string message =
      message_of<NotWritten>([] { throw NotWritten("01.2 rms_norm_backward"); });
  EXPECT_THAT(message, HasSubstr("not written: 01.2 rms_norm_backward"));
  EXPECT_THAT(message, HasSubstr("./workbook hint 01.2"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("hint 01.2 rms")));
}

TEST(Ensure, NamesTheBrokenInvariantAndItsPlace) {
  const std::source_location here = std::source_location::current();
  const std::string message =
      message_of<InternalError>([&] { ensure(false, "the pool is empty", here); });
  EXPECT_THAT(message, HasSubstr("the pool is empty"));
  EXPECT_THAT(message, HasSubstr("errors_test.cpp:" + std::to_string(here.line())));
  EXPECT_THAT(message, HasSubstr("bug"));
}

TEST(Interrupt, BecomesAnErrorForBothSignals) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const InterruptGuard guard;
    std::raise(signal);
    EXPECT_THROW(throw_if_interrupted(), Interrupted);
  }
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        const InterruptGuard guard;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace ultra
