// Exercise 09.2: a matrix product from tiles in shared memory.

#include <gtest/gtest.h>

#include "tests/support/contracts/accesses.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class TiledMatmul : public test::RandomTest {
 protected:
  std::unique_ptr<Ladder> ladder = matmul_fp32_ladder();
  int rung = test::find_rung(*ladder, "tiled");
};

TEST_F(TiledMatmul, IsRightForAnyShape) { test::expect_right_everywhere(*ladder, rung, random, 3); }

TEST_F(TiledMatmul, LoadsAnElementOncePerBlock) {
  const simt::Report report = test::counted(*ladder, rung, {96, 64, 128});
  // a is read once per 32 columns, b once per 32 rows.
  constexpr std::uint64_t kLoaded = std::uint64_t{96} * 64 * 128 * 2 / 32 * sizeof(float);
  test::expect_bytes(report, AccessKind::kGlobalLoad, kLoaded,
                     "per tile, each thread loads one element of a and one of b; the multiply-adds "
                     "read shared memory");
  test::expect_bytes(report, AccessKind::kSharedStore, kLoaded,
                     "what a thread loads, it stores to a tile, once");
  test::expect_bytes(report, AccessKind::kSharedLoad,
                     std::uint64_t{96} * 64 * 128 * 2 * sizeof(float),
                     "a multiply-add takes one element of each tile");
  test::expect_bytes(report, AccessKind::kGlobalStore, std::uint64_t{96} * 64 * sizeof(float),
                     "add up in a variable, and store each element of c once");
  EXPECT_LE(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 4.0)
      << "Hint: the lanes of a warp load neighbours in a row, of a and of b";
  EXPECT_LE(report.total(AccessKind::kGlobalStore).sectors_per_request(), 4.0)
      << "Hint: the lanes of a warp write neighbours of c";
}

TEST_F(TiledMatmul, HasNoBankConflicts) {
  const simt::Report report = test::counted(*ladder, rung, {64, 64, 64});
  for (const AccessKind kind : {AccessKind::kSharedLoad, AccessKind::kSharedStore}) {
    EXPECT_LE(report.total(kind).wavefronts, report.total(kind).ideal_wavefronts)
        << simt::name_of(kind)
        << ". Hint: the lanes of a warp share the first index of a tile, or their last indices are "
           "neighbours: else their words lie in one bank";
  }
}

}  // namespace
}  // namespace ultra::ladders
