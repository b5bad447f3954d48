// Exercise 09.6: a residual addition and an RMSNorm in one kernel that moves the least bytes.

#include <gtest/gtest.h>

#include "tests/support/contracts/accesses.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class FusedRmsNorm : public test::RandomTest {
 protected:
  std::unique_ptr<Ladder> ladder = rms_norm_ladder();
  int rung = test::find_rung(*ladder, "fused");
};

TEST_F(FusedRmsNorm, IsRightForAnyShape) {
  test::expect_right_everywhere(*ladder, rung, random, 3);
}

TEST_F(FusedRmsNorm, AveragesOverTheRowAloneAndAddsEpsilonInsideTheRoot) {
  test::expect_right(*ladder, rung, {.sizes = {1, 100}},
                     "the mean is over the `hidden` elements of the row, however many the threads "
                     "of the block could hold");
  // The second row is as small as epsilon.
  test::expect_right(*ladder, rung, {.sizes = {2, 512}},
                     "epsilon is added to the mean of the squares before the root is taken");
}

TEST_F(FusedRmsNorm, MovesTheLeastBytes) {
  constexpr std::uint64_t kRows = 6;
  constexpr std::uint64_t kHidden = 1024;
  constexpr std::uint64_t kArray = kRows * kHidden * sizeof(float) / 32;  // sectors
  const simt::Report report = test::counted(*ladder, rung, {kRows, kHidden});
  EXPECT_EQ(report.launches.size(), 1U) << "Hint: one kernel does the addition and the norm";

  const simt::Site loads = report.total(AccessKind::kGlobalLoad);
  test::expect_bytes(report, AccessKind::kGlobalLoad, 3 * kArray * 32,
                     "x, residual and weight are read once per row; the sum stays in registers "
                     "until the row's root mean square is known");
  EXPECT_EQ(loads.bytes, 16 * loads.lanes)
      << "Hint: these rows begin at multiples of 16 bytes: load Pack<float, 4>";

  const simt::Site stores = report.total(AccessKind::kGlobalStore);
  EXPECT_GE(stores.sectors, 2 * kArray)
      << "Hint: h is an output, too: the next residual addition and the backward pass read it";
  test::expect_bytes(report, AccessKind::kGlobalStore, 2 * kArray * 32 + kRows * sizeof(float),
                     "h and y are written once, and one reciprocal_rms per row");
  // A thread holds 16 floats of a row, so that a row has the sums of two warps.
  constexpr std::uint64_t kSums = kRows * 2 * sizeof(float);
  test::expect_counted(report, AccessKind::kSharedStore, kSums);
  test::expect_counted(report, AccessKind::kSharedLoad, kSums);
}

}  // namespace
}  // namespace ultra::ladders
