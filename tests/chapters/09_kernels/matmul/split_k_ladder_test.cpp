// What the rungs of split_k change, in launches and counters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/ladders/matmul/split_k/split_k.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace split_k_ladder_test {

using simt::AccessKind;

// Six tiles of eight steps.
constexpr int kTiles = 6;
constexpr std::uint64_t kTileBytes = 4U * 128 * 128;

class SplitKLadder : public test::LadderTest {
 protected:
  SplitKLadder() : LadderTest("split_k", {256, 384, 512, 16}) {}

  static std::uint64_t bytes_kept(const simt::Report& report) {
    return report.total(AccessKind::kGlobalStore).bytes - 2U * 256 * 384;
  }
};

TEST_F(SplitKLadder, ATileHasABlock) {
  const simt::Report report = counters_of("whole_depth");
  ASSERT_EQ(report.launches.size(), 1U);
  EXPECT_EQ(report.launches[0].grid.x, static_cast<unsigned>(kTiles));
  EXPECT_EQ(bytes_kept(report), 0U);
}

// Two parts each, 12 blocks of 16.
TEST_F(SplitKLadder, PartsOfADepthAreWhole) {
  const simt::Report report = counters_of("split");
  ASSERT_EQ(report.launches.size(), 2U);
  EXPECT_EQ(report.launches[0].grid.x, 12U);
  EXPECT_EQ(bytes_kept(report), 12 * kTileBytes);
}

// 48 steps for 16 blocks: 3 each. No block has all 8 steps of a tile; cuts at 8, 16, ... lie inside
// a block's three where 3 does not divide them, at 8, 16, 32 and 40: those blocks keep two pieces.
TEST_F(SplitKLadder, StreamGivesEachBlockAsManySteps) {
  const simt::Report report = counters_of("stream");
  EXPECT_EQ(report.launches[0].grid.x, 16U);
  EXPECT_EQ(bytes_kept(report), (16 + 4) * kTileBytes);
}

// As many blocks as tiles: nothing is cut, and nothing kept.
TEST_F(SplitKLadder, StreamKeepsNothingOfWholeTiles) {
  EXPECT_EQ(bytes_kept(counters_of("stream", {256, 384, 512, kTiles})), 0U);
}

TEST_F(SplitKLadder, AnyNumberOfBlocksIsRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const int blocks : {1, 5, 7, 13, 49, 100}) {
      expect_right(rung, {.sizes = {140, 136, 456, blocks}, .executor = simt::Executor::kFast});
    }
    expect_right(rung, {.sizes = {1, 1, 8, 4}});
    expect_right(rung, {.sizes = {129, 129, 72, 9}});
  }
}

TEST_F(SplitKLadder, HasNoBankConflicts) {
  for (const std::string& rung : emulated_rungs()) {
    expect_no_bank_conflicts(counters_of(rung));
  }
}

TEST(SplitK, PartsAreAsManyAsBlocksAllowAndHaveAStepEach) {
  using kernels::split_k::count_parts;
  EXPECT_EQ(count_parts(64, 512, 264), 4);
  EXPECT_EQ(count_parts(100, 512, 264), 2);
  EXPECT_EQ(count_parts(300, 512, 264), 1);
  EXPECT_EQ(count_parts(1, 3, 264), 3);
  EXPECT_EQ(count_parts(1, 5, 4), 3) << "parts of two steps, the last one of one";
}

TEST_F(SplitKLadder, ARaggedDepthIsRefused) {
  EXPECT_THAT(refusal_of("stream", {2, 4, 12, 4}), testing::HasSubstr("multiple of 8"));
}

}  // namespace split_k_ladder_test
}  // namespace ultra::ladders
