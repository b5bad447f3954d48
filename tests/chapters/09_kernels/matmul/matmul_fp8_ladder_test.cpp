// What the rungs of matmul_fp8 read, in counters.

#include "kernels/ladders/matmul/matmul_turned/matmul_turned.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"
#include "tests/support/toolbox.hpp"

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

// What the rungs of matmul_turned move, in counters; and every layout and result of theirs.
namespace ultra::ladders {
namespace matmul_turned_ladder_test {

using simt::AccessKind;

class MatmulTurnedLadder : public test::LadderTest {
 protected:
  static constexpr std::uint64_t kSeeds = 6;  // that many layouts and results

  MatmulTurnedLadder() : LadderTest("matmul_turned", {128, 256, 192}) {}
};

TEST_F(MatmulTurnedLadder, EveryLayoutIsRightAtRaggedEdgesOfSeveralTiles) {
  for (const RungInfo& rung : ladder().rungs()) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      expect_right(rung.name, {.sizes = {136, 264, 200}, .seed = seed});
      expect_right(rung.name, {.sizes = {8, 8, 8}, .seed = seed});
    }
    expect_right_bare(rung.name, {520, 776, 72});
  }
}

// Each of two tiles brings 128 rows of both factors once, whichever way they lie: nothing is copied
// before. What is added to is read and written once.
TEST_F(MatmulTurnedLadder, FactorsAreReadAsTheyLie) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {  // sums in fp32
    const simt::Report report = counters_of("ldmatrix_turns", sizes_, seed);
    constexpr std::uint64_t kFactors = 2 * 2 * (128 + 128) * 192;
    constexpr std::uint64_t kSums = 4 * 128 * 256;
    EXPECT_EQ(report.total(AccessKind::kGlobalLoad).bytes, kFactors + kSums);
    EXPECT_EQ(report.total(AccessKind::kGlobalStore).bytes, kSums);
    EXPECT_EQ(bytes_moved(report), kFactors + 2 * kSums) << "whole sectors";
    expect_no_bank_conflicts(report);
  }
}

// A cluster's two blocks share b: one tile of 256 x 256 brings 256 rows of a, and 256 of b once.
TEST_F(MatmulTurnedLadder, OnHopperTheyAreReadAsTheyLieToo) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const simt::Report report = counters_of("wgmma_turns", {256, 256, 192}, seed);
    EXPECT_EQ(report.total(AccessKind::kGlobalLoad).bytes, 2U * (256 + 256) * 192 + 4U * 256 * 256);
    EXPECT_EQ(bytes_moved(report), 2.0 * (256 + 256) * 192 + 2 * 4.0 * 256 * 256);
  }
}

TEST_F(MatmulTurnedLadder, RefusesWhatItsCopiesCannotRead) {
  for (const RungInfo& rung : ladder().rungs()) {
    EXPECT_THAT(refusal_of(rung.name, {8, 12, 8}), testing::HasSubstr("multiples of 8"));
  }
}

TEST_F(MatmulTurnedLadder, ThePairOfLayoutsThatNobodyHasIsNamed) {
  using kernels::matmul_bf16::Lies;
  kernels::matmul_turned::Problem problem{};
  problem.a_lies = Lies::kAlongRows;
  problem.b_lies = Lies::kAlongDepth;
  EXPECT_THAT(test::message_of<simt::SimtError>([&] {
                kernels::matmul_turned::ldmatrix_turns<simt::Executor::kFast>(problem, {});
              }),
              testing::HasSubstr("exchange the factors"));
}

}  // namespace matmul_turned_ladder_test
}  // namespace ultra::ladders
