// What the record of a long training costs in memory.
//
// Covers: chapters/04_zero/checkpoints/training_record.hpp

#include <malloc.h>

#include <fstream>

#include "chapters/04_zero/checkpoints/training_record.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

/// The most memory that this process has had at once since forget_peak(), in bytes.
std::size_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    std::size_t kilobytes = 0;
    status >> kilobytes;
    return 1024 * kilobytes;
  }
  throw std::runtime_error("the system does not say how much memory a process has had");
}

void forget_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
}

/// Text of some 80 bytes per step: at most twice that while it grows, and no tree beside it.
TEST(RecordMemory, TakesLittleMoreThanItsText) {
  if (ultra::test::sanitizer_owns_the_heap()) GTEST_SKIP() << "the sanitizer has memory of its own";
  constexpr std::size_t kSteps = 50'000;
  TrainingRecord record;
  for (std::size_t step = 1; step <= kSteps; ++step) {
    record.steps.push_back({step, 1.0 / static_cast<double>(step), 1.5, 1e-3 / 3, 1e5 / 7});
  }
  forget_peak();
  const std::size_t before = peak_bytes();
  EXPECT_GT(to_json(record).size(), 40 * kSteps);
  EXPECT_LT(peak_bytes() - before, 160 * kSteps);
}

}  // namespace
}  // namespace ultra::zero
