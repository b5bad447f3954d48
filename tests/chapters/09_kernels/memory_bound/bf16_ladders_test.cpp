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
