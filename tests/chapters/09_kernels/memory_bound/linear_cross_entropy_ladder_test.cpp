// What the rungs of linear_cross_entropy change, in counters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/ladders/rows/linear_cross_entropy/linear_cross_entropy.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace {

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

}  // namespace
}  // namespace ultra::ladders
