// Trainings that are killed: as checkpoint_lock_test.cpp, often enough to meet the moments between two
// files; and under mpirun, whose processes train and save on for some seconds: a run that is started at
// once waits for their end, and nothing that they write last is in what it writes.
//
// Covers: chapters/04_zero/checkpoints/checkpoint_writer.hpp

#include "tests/chapters/04_zero/checkpoints/checkpoint_kill.hpp"

#include <malloc.h>

#include "common/train/report/metrics.hpp"
#include "tests/chapters/04_zero/checkpoints/checkpoint_faults.hpp"
#include "tests/chapters/04_zero/checkpoints/checkpoint_lock.hpp"
#include "tests/support/sanitizer.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

using CheckpointKillSlow = CheckpointKillTest;

TEST_F(CheckpointKillSlow, TwoHundredTimes) { kill_trainings(200); }

using CheckpointLockSlow = CheckpointLockTest;

/// Its ranks have made some 300 steps when the last of them ends.
TEST_F(CheckpointLockSlow, ARunAfterAKilledMpirunWaitsForItsRanks) {
  if (!has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  const Changes base = with(kSixSteps, "--steps", "2000");
  const json expected = losses_of(base, {});
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::filesystem::remove_all(saved());
    RunningProgram killed(mpirun_words(3, program_words(base, joined({"--zero", "3"}, saving()))),
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

// What saving costs in memory: a run may save a million times.

/// A step leaves its metrics in a list and a line in the text that is being written; both grow to
/// twice what they hold.
TEST(CheckpointMemorySlow, DoesNotGrowWithTheNumberOfCheckpoints) {
  if (sanitizer_owns_the_heap()) GTEST_SKIP() << "the sanitizer has memory of its own";
  constexpr std::size_t kFirst = 100;
  constexpr std::size_t kLast = 400;
  constexpr std::size_t kLine = 96;
  const TemporaryFolder folder;
  ZeroCase c;
  c.options = short_run();
  c.options.steps = kLast + 1;
  CheckpointOptions options = saving_to(folder.path("all"), 1);
  options.keep = 1;
  std::size_t at_first = 0;
  std::size_t at_last = 0;
  StageChanges changes;
  changes.observer = observing([&](std::size_t step, nn::Model&) {
    const struct mallinfo2 heap = mallinfo2();
    if (step == kFirst + 1) at_first = heap.uordblks + heap.hblkhd;
    if (step == kLast + 1) at_last = heap.uordblks + heap.hblkhd;
  });
  quietly([&] {
    run_ranks(1, [&](Communicator& dp) {
      static_cast<void>(train_saving(dp, c, options, checkpoint::posix_files(), changes));
    });
  });
  ASSERT_GT(at_first, 0U);
  ASSERT_GT(at_last, 0U);
  const auto growth = static_cast<double>(at_last) - static_cast<double>(at_first);
  RecordProperty("bytes_per_step", std::to_string(growth / (kLast - kFirst)));
  EXPECT_LT(growth, 2.0 * (sizeof(train::StepMetrics) + kLine) * (kLast - kFirst));
}

}  // namespace
}  // namespace ultra::zero
