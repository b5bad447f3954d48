// What the rungs of matmul_turned move, in counters; and every layout and result of theirs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/ladders/matmul/matmul_turned/matmul_turned.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"
#include "tests/support/toolbox.hpp"

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
