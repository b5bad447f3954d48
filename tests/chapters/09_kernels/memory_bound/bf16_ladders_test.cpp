// What the rungs of the bf16 ladders change, in counters.

#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace bf16_ladders_test {

class SwigluBf16Ladder : public test::LadderTest {
 protected:
  SwigluBf16Ladder() : LadderTest("swiglu_bf16", {8, 256}) {}
};

TEST_F(SwigluBf16Ladder, AnElementEachFillsHalfARequest) {
  const simt::Report report = counters_of("element_each");
  EXPECT_EQ(bytes_moved(report), least_bytes());
  expect_sectors_per_request(report, 2.0, 2.0);
}

TEST_F(SwigluBf16Ladder, VectorsTakeAnEighthOfTheRequests) {
  const simt::Report report = counters_of("vectorised");
  EXPECT_EQ(bytes_moved(report), least_bytes());
  expect_sectors_per_request(report, 16.0, 16.0);
}

TEST_F(SwigluBf16Ladder, LastElementsHaveAThreadEach) {
  for (const int ffn : {1, 7, 8, 9, 15, 2047, 2049, 2055}) {
    expect_right("vectorised", {.sizes = {1, ffn}});
  }
}

class RmsNormBf16Ladder : public test::LadderTest {
 protected:
  RmsNormBf16Ladder() : LadderTest("rms_norm_bf16", {4, 512}) {}

  // What each row asks for beside the least: its weights, which are counted once.
  static constexpr double kWeights = 2.0 * 512;
};

TEST_F(RmsNormBf16Ladder, AWarpReadsBackWhatItHasStored) {
  const double h = 2.0 * 4 * 512;
  EXPECT_EQ(bytes_asked(counters_of("warp_per_row")), least_bytes() + h + 3 * kWeights);
}

TEST_F(RmsNormBf16Ladder, ABlockDoesNot) {
  const simt::Report report = counters_of("in_registers");
  EXPECT_EQ(bytes_asked(report), least_bytes() + 3 * kWeights);
  EXPECT_EQ(report.total(simt::AccessKind::kGlobalLoad).sectors_per_request(), 16.0);
}

TEST_F(RmsNormBf16Ladder, RowsOfAnyLength) {
  for (const int hidden : {1, 8, 9, 511, 520, 1032, 4096}) {
    expect_right("in_registers", {.sizes = {3, hidden}});
    expect_right_bare("warp_per_row", {3, hidden});
  }
}

TEST_F(RmsNormBf16Ladder, LongRowsAreRefused) {
  EXPECT_EQ(refusal_of("in_registers", {1, 16384}), "");
  EXPECT_NE(refusal_of("in_registers", {1, 16385}).find("rung 1 does any length"),
            std::string::npos);
}

class AdamWBf16Ladder : public test::LadderTest {
 protected:
  AdamWBf16Ladder() : LadderTest("adamw_bf16", {4096}) {}
};

TEST_F(AdamWBf16Ladder, RoundingApartReadsTheMasterCopyAgain) {
  EXPECT_EQ(bytes_moved(counters_of("two_kernels")), least_bytes() + 4.0 * 4096);
}

TEST_F(AdamWBf16Ladder, FusedMovesTheLeastInFewRequests) {
  const simt::Report report = counters_of("fused");
  EXPECT_EQ(bytes_moved(report), least_bytes());
  EXPECT_EQ(report.total(simt::AccessKind::kGlobalLoad).requests, 4U * 4096 / 4 / 32);
}

TEST_F(AdamWBf16Ladder, LastParametersHaveAThreadEach) {
  for (const int n : {1, 7, 8, 9, 255, 2047, 2049}) {
    expect_right("fused", {.sizes = {n}});
  }
}

}  // namespace bf16_ladders_test
}  // namespace ultra::ladders

// What each rung of swiglu and of swiglu_backward changes, in counters: sectors are counted in
// units of one matrix read or written once.
namespace ultra::ladders {
namespace swiglu_ladder_test {
constexpr std::uint64_t kTokens = 8;
constexpr std::uint64_t kFfn = 256;
constexpr std::uint64_t kMatrix = kTokens * kFfn / 8;  // sectors

// Matrices that a ladder's rungs load and store.
struct Matrices {
  const char* ladder;
  std::uint64_t loads;
  std::uint64_t stores;
  std::uint64_t loads_of_two_kernels;
  std::uint64_t stores_of_two_kernels;
};

class SwigluLadders : public test::LadderTest, public ::testing::WithParamInterface<Matrices> {
 protected:
  SwigluLadders() : LadderTest(GetParam().ladder, {kTokens, kFfn}) {}

  void expect_the_least(const simt::Report& report) {
    expect_sectors(report, GetParam().loads * kMatrix, GetParam().stores * kMatrix);
    EXPECT_EQ(bytes_asked(report), least_bytes());
  }
};

INSTANTIATE_TEST_SUITE_P(All, SwigluLadders,
                         ::testing::Values(
                             // In two kernels: gate; what silu left, and up.
                             Matrices{"swiglu", 2, 1, 3, 2},
                             // In two kernels: d_product and gate for each gradient; up.
                             Matrices{"swiglu_backward", 3, 2, 5, 2}),
                         [](const auto& matrices) { return matrices.param.ladder; });

TEST_P(SwigluLadders, TwoKernelsMoveMore) {
  expect_sectors(counters_of("two_kernels"), GetParam().loads_of_two_kernels * kMatrix,
                 GetParam().stores_of_two_kernels * kMatrix);
}

TEST_P(SwigluLadders, FusedMovesTheLeast) {
  const simt::Report report = counters_of("fused");
  expect_the_least(report);
  EXPECT_EQ(report.total(simt::AccessKind::kGlobalLoad).sectors_per_request(), 4.0);
}

TEST_P(SwigluLadders, VectorsTakeAQuarterOfTheRequests) {
  const simt::Report report = counters_of("vectorised");
  expect_the_least(report);
  expect_sectors_per_request(report, 16.0, 16.0);
}

TEST_P(SwigluLadders, LastElementsHaveAThreadEach) {
  for (const int ffn : {1, 2, 3, 4, 5, 1021, 1022, 1023, 1025}) {
    expect_right("vectorised", {.sizes = {1, ffn}});
  }
}

}  // namespace swiglu_ladder_test
}  // namespace ultra::ladders
