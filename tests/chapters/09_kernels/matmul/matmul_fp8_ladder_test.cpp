// What the rungs of matmul_fp8 read, in counters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace matmul_fp8_ladder_test {

using simt::AccessKind;

class MatmulFp8Ladder : public test::LadderTest {
 protected:
  MatmulFp8Ladder() : LadderTest("matmul_fp8", {128, 256, 256}) {}
};

// Two tiles: each reads its rows of both factors, a byte an element; both factors' bytes are loaded
// in 16, scales in 4.
TEST_F(MatmulFp8Ladder, AnElementIsAByte) {
  for (const std::string& rung : emulated_rungs()) {
    std::uint64_t elements = 0;
    for (const simt::Site& site : counters_of(rung).sites) {
      elements += site.kind == AccessKind::kGlobalLoad && site.size == 16 ? site.bytes : 0;
    }
    EXPECT_EQ(elements, 2U * (128 + 128) * 256) << rung;
  }
}

TEST_F(MatmulFp8Ladder, RowsOfBytesHaveNoBankConflicts) {
  for (const std::string& rung : emulated_rungs()) {
    const simt::Site loads = counters_of(rung).total(AccessKind::kSharedLoad);
    EXPECT_EQ(loads.wavefronts, loads.ideal_wavefronts) << rung;
  }
}

// Both multiply the same numbers and promote the same sums: only the order of 32 products differs.
TEST_F(MatmulFp8Ladder, CornersAreRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes : std::vector<Sizes>{
             {1, 1, 128}, {129, 130, 128}, {5, 257, 256}, {130, 7, 640}, {64, 64, 1024}}) {
      expect_right(rung, {.sizes = sizes});
    }
  }
}

// More tiles than the emulated GPU has multiprocessors, more groups than the ring has stages, edges.
TEST_F(MatmulFp8Ladder, HopperGoesThroughSeveralTilesWithRaggedEdges) {
  for (const Sizes& sizes : std::vector<Sizes>{{1, 2, 128}, {129, 130, 896}, {700, 258, 256}}) {
    expect_right("wgmma", {.sizes = sizes});
  }
  expect_right_bare("wgmma", {130, 258, 1408});
}

// Boxes bring each byte of the factors once for each tile; what threads load besides is scales.
TEST_F(MatmulFp8Ladder, OnHopperTheCopyEngineBringsTheElements) {
  const simt::Report report = counters_of("wgmma");
  std::uint64_t scales = 0;
  std::uint64_t elements = 0;
  for (const simt::Site& site : report.sites) {
    if (site.kind != AccessKind::kGlobalLoad) continue;
    (site.size == 4 ? scales : elements) += site.bytes;
  }
  EXPECT_EQ(elements, 2U * (128 + 128) * 256);
  // In each of two tiles, two groups: 256 threads with two rows and a column of scales.
  EXPECT_EQ(scales, 2U * 2 * 256 * 3 * sizeof(float));
  EXPECT_EQ(report.total(AccessKind::kSharedLoad).wavefronts, 0U);
}

TEST_F(MatmulFp8Ladder, RefusesRaggedGroups) {
  EXPECT_THAT(refusal_of("wgmma", {4, 5, 128}), testing::HasSubstr("an even number"));

  EXPECT_THAT(refusal_of("tensor_cores", {4, 4, 130}), testing::HasSubstr("multiple of 128"));
}

}  // namespace matmul_fp8_ladder_test
}  // namespace ultra::ladders
