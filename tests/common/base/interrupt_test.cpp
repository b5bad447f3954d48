#include "common/base/interrupt.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace ultra {
namespace {

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
