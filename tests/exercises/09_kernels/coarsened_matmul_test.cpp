// Exercise 09.3: a matrix product with eight elements of c per thread.

#include <gtest/gtest.h>

#include "tests/support/contracts/accesses.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class CoarsenedMatmul : public test::RandomTest {
 protected:
  std::unique_ptr<Ladder> ladder = matmul_fp32_ladder();
  int rung = test::find_rung(*ladder, "coarsened");
};

TEST_F(CoarsenedMatmul, IsRightForAnyShape) {
  test::expect_right_everywhere(*ladder, rung, random, 3);
}

TEST_F(CoarsenedMatmul, LoadsOnceForManyMultiplyAdds) {
  const simt::Report report = test::counted(*ladder, rung, {64, 128, 64});
  const std::uint64_t multiply_adds = std::uint64_t{64} * 128 * 64;
  const std::uint64_t loaded = multiply_adds * 2 / 64 * sizeof(float);
  test::expect_bytes(report, AccessKind::kSharedLoad, multiply_adds * 9 / 8 * sizeof(float),
                     "for each k, load the element of b once, before the loop over the eight rows");
  test::expect_bytes(report, AccessKind::kGlobalLoad, loaded,
                     "a block of 512 threads computes 64 x 64 of c; per tile, each of them loads "
                     "one element of a and one of b");
  test::expect_bytes(report, AccessKind::kSharedStore, loaded,
                     "what a thread loads, it stores to a tile, once");
  test::expect_bytes(report, AccessKind::kGlobalStore, std::uint64_t{64} * 128 * sizeof(float),
                     "keep the eight sums in registers, and store each element of c once");
}

TEST_F(CoarsenedMatmul, LanesAccessNeighbours) {
  const simt::Report report = test::counted(*ladder, rung, {64, 64, 32});
  EXPECT_LE(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 4.0)
      << "Hint: eight lanes load eight neighbours in a row of a, all lanes neighbours in a row of "
         "b";
  EXPECT_LE(report.total(AccessKind::kGlobalStore).sectors_per_request(), 4.0)
      << "Hint: the lanes of a warp have neighbouring columns of c";
  for (const AccessKind kind : {AccessKind::kSharedLoad, AccessKind::kSharedStore}) {
    EXPECT_LE(report.total(kind).wavefronts, report.total(kind).ideal_wavefronts)
        << simt::name_of(kind)
        << ". Hint: for each k, the lanes of a warp read one element of a, all the same, and "
           "neighbours of b";
  }
}

}  // namespace
}  // namespace ultra::ladders
