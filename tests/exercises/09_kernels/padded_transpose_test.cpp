// Exercise 09.4: a transposition through a padded tile.

#include <gtest/gtest.h>

#include "tests/support/contracts/accesses.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class PaddedTranspose : public test::RandomTest {
 protected:
  std::unique_ptr<Ladder> ladder = transpose_ladder();
  int rung = test::find_rung(*ladder, "padded");
};

TEST_F(PaddedTranspose, IsRightForAnyShape) {
  test::expect_right_everywhere(*ladder, rung, random, 3);
}

// Tiles of which one row, one column or one element exists.
TEST_F(PaddedTranspose, GuardsRaggedEdges) {
  for (const Sizes& sizes : {Sizes{33, 64}, Sizes{64, 33}, Sizes{33, 65}}) {
    test::expect_right(*ladder, rung, {.sizes = sizes},
                       "both phases check the edge, each with the indices that it uses");
  }
}

TEST_F(PaddedTranspose, LoadsAndStoresRowsWithoutBankConflicts) {
  const simt::Report report = test::counted(*ladder, rung, {96, 64});
  for (const AccessKind kind : {AccessKind::kGlobalLoad, AccessKind::kGlobalStore}) {
    EXPECT_LE(report.total(kind).sectors_per_request(), 4.0)
        << "Hint: threadIdx.x counts columns of in where you load, and columns of out where you "
           "store: the tile is what turns";
    test::expect_bytes(report, kind, 96U * 64 * sizeof(float),
                       "each element is read once and written once");
  }
  for (const AccessKind kind : {AccessKind::kSharedLoad, AccessKind::kSharedStore}) {
    test::expect_bytes(report, kind, 96U * 64 * sizeof(float),
                       "each element goes into the tile once, and out of it once");
    EXPECT_EQ(report.total(kind).wavefronts, report.total(kind).ideal_wavefronts)
        << simt::name_of(kind) << ": " << report.total(kind).wavefronts_per_request()
        << " wavefronts per request, expected 1. Hint: elements below each other must lie in "
           "different banks: make the tile's rows one element longer";
  }
}

}  // namespace
}  // namespace ultra::ladders
