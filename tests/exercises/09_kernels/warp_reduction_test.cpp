// Exercise 09.5: a reduction by warp shuffles.

#include <gtest/gtest.h>

#include "tests/support/contracts/accesses.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class WarpReduction : public test::RandomTest {
 protected:
  std::unique_ptr<Ladder> ladder = reduction_ladder();
  int rung = test::find_rung(*ladder, "warp_shuffles");
};

TEST_F(WarpReduction, AddsUpEveryLaneOfEveryWarp) {
  for (const int n : {1, 32, 256, 1024}) {
    test::expect_right(
        *ladder, rung, {.sizes = {n}},
        "five rounds reach every lane of a warp, and the first warp then adds up the "
        "sums of all warps");
  }
}

TEST_F(WarpReduction, IsRightForAnyLength) {
  test::expect_right_everywhere(*ladder, rung, random, 3);
}

TEST_F(WarpReduction, ReadsValuesOnceAndNeedsLittleSharedMemoryAndFewAtomics) {
  constexpr std::uint64_t kN = 4096;
  const simt::Report report = test::counted(*ladder, rung, {static_cast<int>(kN)});
  EXPECT_LE(report.total(AccessKind::kSharedStore).lanes, kN / 32)
      << "Hint: lanes hand each other their sums by __shfl_xor_sync(); only one lane of a warp "
         "stores to shared memory";
  test::expect_counted(report, AccessKind::kSharedStore, kN / 32 * sizeof(float));
  test::expect_counted(report, AccessKind::kSharedLoad, kN / 32 * sizeof(float));
  EXPECT_LE(report.total(AccessKind::kGlobalAtomic).lanes, kN / 64)
      << "Hint: one thread of a block adds the block's sum to the total";
  // root_of_total() reads the total.
  test::expect_bytes(report, AccessKind::kGlobalLoad, kN * sizeof(float) + sizeof(double),
                     "each thread loads one value, and none behind the end");
  std::uint64_t blocks = 0;  // of the learner's kernel: the helpers' have one thread
  for (const simt::Launched& launched : report.launches) {
    blocks += launched.block.count() > 1 ? launched.grid.count() : 0;
  }
  test::expect_bytes(report, AccessKind::kGlobalAtomic, blocks * sizeof(double),
                     "one thread of a block adds the block's sum to the total");
}

}  // namespace
}  // namespace ultra::ladders
