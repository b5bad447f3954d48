// Trainings that are killed: as checkpoint_kill_test.cpp, often enough to meet the moments between two
// files; and under mpirun, whose processes train and save on for some seconds: a run that is started at
// once waits for their end, and nothing that they write last is in what it writes.

#include "tests/chapters/04_zero/checkpoints/checkpoint_kill.hpp"
#include "tests/chapters/04_zero/checkpoints/checkpoint_lock.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

using CheckpointKillSlow = CheckpointKillTest;

TEST_F(CheckpointKillSlow, TwoHundredTimes) { kill_trainings(200); }

using CheckpointLockSlow = CheckpointLockTest;

/// Its ranks have made some 300 steps when the last of them ends.
TEST_F(CheckpointLockSlow, ARunAfterAKilledMpirunWaitsForItsRanks) {
  if (!ultra::test::has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  const Changes base = with(kSixSteps, "--steps", "2000");
  const json expected = losses_of(base, {});
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::filesystem::remove_all(saved());
    RunningProgram killed(
        ultra::test::mpirun_words(3, program_words(base, joined({"--zero", "3"}, saving()))),
        disk.path("killed"));
    wait_for_step(3);
    ASSERT_TRUE(killed.kill_now());
    const json losses = losses_of(base, {"--dp", "2", "--zero", "1", "--checkpoint", saved(),
                                         "--resume", saved(), "--save-every", "100"});
    expect_near_losses(losses, expected, 1e-8);
    for (const std::string& name : names()) {
      EXPECT_TRUE(name.starts_with("step-")) << name << " stays";
      expect_near_losses(losses_of(base, {"--resume", saved("all/" + name)}), expected, 1e-8);
    }
  }
}

}  // namespace
}  // namespace ultra::zero
