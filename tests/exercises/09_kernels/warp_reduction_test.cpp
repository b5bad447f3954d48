// Exercise 09.5: a reduction by warp shuffles.

#include <gtest/gtest.h>

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
    test::expect_right(*ladder, rung, {.sizes = {n}},
                       "five rounds with distances 16, 8, 4, 2 and 1 reach every lane, and the "
                       "first warp then adds up the sums of all warps");
  }
}

TEST_F(WarpReduction, IsRightForAnyLength) {
  test::expect_right_everywhere(*ladder, rung, random, 3);
}

TEST_F(WarpReduction, NeedsLittleSharedMemoryAndFewAtomics) {
  constexpr std::uint64_t kN = 4096;
  const simt::Report report = test::counted(*ladder, rung, {static_cast<int>(kN)});
  EXPECT_LE(report.total(AccessKind::kSharedStore).lanes, kN / 32)
      << "Hint: lanes hand each other their sums by __shfl_xor_sync(); only one lane of a warp "
         "stores to shared memory";
  EXPECT_LE(report.total(AccessKind::kGlobalAtomic).lanes, kN / 64)
      << "Hint: one thread of a block adds the block's sum to the total";
}

}  // namespace
}  // namespace ultra::ladders
