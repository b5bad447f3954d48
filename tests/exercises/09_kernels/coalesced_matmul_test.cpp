// Exercise 09.1: a matrix product whose loads are coalesced.

#include <gtest/gtest.h>

#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class CoalescedMatmul : public test::RandomTest {
 protected:
  std::unique_ptr<Ladder> ladder = matmul_fp32_ladder();
  int rung = test::find_rung(*ladder, "coalesced");
};

TEST_F(CoalescedMatmul, IsRightForAnyShape) {
  test::expect_right_everywhere(*ladder, rung, random, 3);
}

TEST_F(CoalescedMatmul, LanesLoadNeighbours) {
  const simt::Report report = test::counted(*ladder, rung, {64, 96, 32});
  EXPECT_LE(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 2.5)
      << "Hint: threadIdx.x counts columns, so that a warp shares a row of a and reads neighbours "
         "of b";
  EXPECT_LE(report.total(AccessKind::kGlobalStore).sectors_per_request(), 4.0)
      << "Hint: the lanes of a warp write neighbours of c";
}

}  // namespace
}  // namespace ultra::ladders
