// Exercise 09.1: a matrix product whose loads are coalesced.

#include <gtest/gtest.h>

#include "tests/support/contracts/accesses.hpp"
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

TEST_F(CoalescedMatmul, MovesWhatTheDefinitionSaysAndLanesLoadNeighbours) {
  const simt::Report report = test::counted(*ladder, rung, {64, 96, 32});
  EXPECT_LE(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 2.5)
      << "Hint: threadIdx.x counts columns, so that a warp shares a row of a and reads neighbours "
         "of b";
  EXPECT_LE(report.total(AccessKind::kGlobalStore).sectors_per_request(), 4.0)
      << "Hint: the lanes of a warp write neighbours of c";
  constexpr std::uint64_t kElements = std::uint64_t{64} * 96;
  test::expect_bytes(report, AccessKind::kGlobalLoad, kElements * 32 * 2 * sizeof(float),
                     "a thread loads two elements for each multiply-add, and none outside c");
  test::expect_bytes(report, AccessKind::kGlobalStore, kElements * sizeof(float),
                     "add up in a variable, and store each element of c once");
}

}  // namespace
}  // namespace ultra::ladders
