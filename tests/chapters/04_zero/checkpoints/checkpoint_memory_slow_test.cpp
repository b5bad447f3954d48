// What saving costs in memory: a run may save a million times.
//
// Covers: chapters/04_zero/checkpoints/checkpoint_writer.hpp

#include <malloc.h>

#include "common/train/report/metrics.hpp"
#include "tests/chapters/04_zero/checkpoints/checkpoint_faults.hpp"
#include "tests/support/sanitizer.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

/// A step leaves its metrics in a list and a line in the text that is being written; both grow to
/// twice what they hold.
TEST(CheckpointMemorySlow, DoesNotGrowWithTheNumberOfCheckpoints) {
  if (ultra::test::sanitizer_owns_the_heap()) GTEST_SKIP() << "the sanitizer has memory of its own";
  constexpr std::size_t kFirst = 100;
  constexpr std::size_t kLast = 400;
  constexpr std::size_t kLine = 96;
  const ultra::test::TemporaryFolder folder;
  ZeroCase c;
  c.options = ultra::test::short_run();
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
