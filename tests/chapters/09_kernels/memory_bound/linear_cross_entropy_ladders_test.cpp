// What the rungs of linear_cross_entropy and of its backward pass change, in counters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/ladders/rows/linear_cross_entropy/linear_cross_entropy.hpp"
#include "kernels/ladders/rows/linear_cross_entropy_backward/linear_cross_entropy_backward.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace linear_cross_entropy_ladders_test {

using kernels::linear_cross_entropy_backward::chunk_of;
using simt::AccessKind;

class LinearCrossEntropyLadder : public test::LadderTest {
 protected:
  LinearCrossEntropyLadder() : LadderTest("linear_cross_entropy", {128, 512, 64}) {}

  std::uint64_t bytes_stored(const char* rung) {
    return counters_of(rung).total(AccessKind::kGlobalStore).bytes;
  }
};

TEST_F(LinearCrossEntropyLadder, MaterializedWritesEveryLogit) {
  EXPECT_EQ(bytes_stored("materialized"), 4U * (128 * 512 + 128));
}

// Two numbers for each token and tile of 128 logits, the target's logit, and the loss.
TEST_F(LinearCrossEntropyLadder, FusedWritesTwoNumbersOfATile) {
  EXPECT_EQ(bytes_stored("fused"), 4U * (2 * 128 * 4 + 128 + 128));
}

TEST_F(LinearCrossEntropyLadder, FusedHasNoBankConflictsOfItsTiles) {
  const simt::Report report = counters_of("fused");
  EXPECT_EQ(report.total(AccessKind::kSharedLoad).wavefronts,
            report.total(AccessKind::kSharedLoad).ideal_wavefronts);
}

TEST_F(LinearCrossEntropyLadder, CornersAreRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes :
         std::vector<Sizes>{{1, 1, 8}, {1, 127, 64}, {129, 129, 72}, {2, 300, 200}, {130, 8, 8}}) {
      expect_right(rung, {.sizes = sizes});
    }
  }
}

TEST_F(LinearCrossEntropyLadder, RefusesWhatItCannotDo) {
  EXPECT_THAT(refusal_of("fused", {4, 8, 12}), testing::HasSubstr("multiple of 8"));
  EXPECT_THAT(refusal_of("materialized", {65536, 131072, 64}),
              testing::HasSubstr("rung 2 keeps none"));
  EXPECT_EQ(refusal_of("fused", {65536, 131072, 64}), "");
}

TEST(LinearCrossEntropy, ScratchOfOneTokenOfEachTile) {
  EXPECT_EQ(kernels::linear_cross_entropy::partials_size(8192, 128256), 2U * 8192 * 1002);
}

class LinearCrossEntropyBackwardLadder : public test::LadderTest {
 protected:
  LinearCrossEntropyBackwardLadder()
      : LadderTest("linear_cross_entropy_backward", {256, 256, 64}) {}

  [[nodiscard]] std::uint64_t stored(const char* rung) const {
    return counters_of(rung).total(AccessKind::kGlobalStore).bytes;
  }
};

// 256 tokens in chunks of 128: the weight's gradient is written twice.
TEST_F(LinearCrossEntropyBackwardLadder, ChunksWriteTheWeightsGradientOnceEach) {
  constexpr std::uint64_t kLogits = 2 * 256 * 256;
  constexpr std::uint64_t kOfX = 2 * 256 * 64;
  constexpr std::uint64_t kOfWeight = 4 * 256 * 64;
  EXPECT_EQ(stored("materialized"), kLogits + kOfX + kOfWeight);
  EXPECT_EQ(stored("chunked"), kLogits + kOfX + 2 * kOfWeight);
  EXPECT_EQ(counters_of("materialized").launches.size(), 3U);
  EXPECT_EQ(counters_of("chunked").launches.size(), 6U);
}

TEST_F(LinearCrossEntropyBackwardLadder, TurnedTilesHaveNoBankConflicts) {
  const simt::Site loads = counters_of("chunked").total(AccessKind::kSharedLoad);
  EXPECT_EQ(loads.wavefronts, loads.ideal_wavefronts);
}

TEST_F(LinearCrossEntropyBackwardLadder, CornersAreRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes : std::vector<Sizes>{
             {1, 8, 8}, {1, 136, 64}, {129, 136, 72}, {300, 264, 16}, {130, 8, 136}}) {
      expect_right(rung, {.sizes = sizes});
    }
  }
}

TEST_F(LinearCrossEntropyBackwardLadder, RefusesRaggedRows) {
  EXPECT_THAT(refusal_of("chunked", {4, 12, 8}), testing::HasSubstr("pad the vocabulary"));
  EXPECT_THAT(refusal_of("chunked", {4, 16, 12}), testing::HasSubstr("multiples of 8"));
}

// 8192 tokens of a vocabulary of 128,256: 32 chunks of 256, whose logits are as many as x has
// elements, rounded up.
TEST(LinearCrossEntropyBackward, AChunksLogitsAreAboutAsManyAsElementsOfX) {
  EXPECT_EQ(chunk_of(8192, 128256, 4096), 256);
  EXPECT_EQ(chunk_of(256, 256, 64), 128);
  EXPECT_EQ(chunk_of(1, 8, 8), 128);
}

}  // namespace linear_cross_entropy_ladders_test
}  // namespace ultra::ladders
