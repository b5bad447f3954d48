// Errors and interrupts.
// Covers: common/base/interrupt.hpp

#include "common/base/errors.hpp"

#include <csignal>
#include <source_location>
#include <type_traits>

#include "common/base/interrupt.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

TEST(Errors, EveryKindIsAnErrorAndKeepsItsMessage) {
  const auto caught_as_base = [](const auto& error) {
    return message_of<Error>([&] { throw error; });
  };
  EXPECT_EQ(caught_as_base(ShapeError("shape")), "shape");
  EXPECT_EQ(caught_as_base(ConfigError("config")), "config");
  EXPECT_EQ(caught_as_base(FileError("file")), "file");
  EXPECT_EQ(caught_as_base(NumericError("numeric")), "numeric");
  EXPECT_EQ(caught_as_base(InternalError("internal")), "internal");
}

TEST(Errors, ABaseErrorIsAStandardRuntimeError) {
  EXPECT_TRUE((std::is_base_of_v<std::runtime_error, Error>));
  EXPECT_FALSE((std::is_base_of_v<ConfigError, ShapeError>));
}

TEST(NotWritten, NamesTheExerciseAndTheCommandThatHelps) {
  const std::string message =
      message_of<NotWritten>([] { throw NotWritten("01.2 rms_norm_backward"); });
  EXPECT_THAT(message, HasSubstr("not written: 01.2 rms_norm_backward"));
  EXPECT_THAT(message, HasSubstr("./workbook hint 01.2"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("hint 01.2 rms")));
}

TEST(NotWritten, AcceptsANumberWithoutAName) {
  EXPECT_THAT(std::string(NotWritten("03.1").what()), HasSubstr("./workbook hint 03.1"));
}

TEST(Ensure, PassesATrueCondition) { EXPECT_NO_THROW(ensure(true, "never seen")); }

TEST(Ensure, NamesTheBrokenInvariantAndItsPlace) {
  const std::source_location here = std::source_location::current();
  const std::string message =
      message_of<InternalError>([&] { ensure(false, "the pool is empty", here); });
  EXPECT_THAT(message, HasSubstr("the pool is empty"));
  EXPECT_THAT(message, HasSubstr("errors_test.cpp:" + std::to_string(here.line())));
  EXPECT_THAT(message, HasSubstr("bug"));
}

TEST(Interrupt, IsQuietWithoutASignal) {
  const InterruptGuard guard;
  EXPECT_NO_THROW(throw_if_interrupted());
}

TEST(Interrupt, BecomesAnErrorForBothSignals) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const InterruptGuard guard;
    std::raise(signal);
    EXPECT_THROW(throw_if_interrupted(), Interrupted);
  }
}

TEST(Interrupt, IsForgottenWithTheGuard) {
  {
    const InterruptGuard guard;
    std::raise(SIGINT);
  }
  EXPECT_NO_THROW(throw_if_interrupted());
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
