// Exercise 09.8: attention that never stores its matrix of scores.

#include <gtest/gtest.h>

#include "tests/support/contracts/accesses.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class FlashForward : public test::RandomTest {
 protected:
  // Seeds: odd ones are causal; bit 1 makes scores large.
  static constexpr std::uint64_t kFull = 4;
  static constexpr std::uint64_t kCausal = 1;
  static constexpr std::uint64_t kLarge = 2;

  simt::Report expect_right(const Sizes& sizes, std::uint64_t inputs, const char* hint) {
    return test::expect_right(*ladder, rung, {.sizes = sizes, .seed = inputs}, hint).report;
  }

  std::unique_ptr<Ladder> ladder = attention_ladder();
  int rung = test::find_rung(*ladder, "flash_forward");
};

TEST_F(FlashForward, IsRightStepByStep) {
  expect_right({1, 1, 1, 64, 64}, kFull,
               "o is the weights times the values, divided by the weights' sum; lse is the largest "
               "score plus log(sum)");
  expect_right({1, 1, 1, 192, 64}, kFull,
               "when a larger score comes, the sum and the output so far shrink by exp(old largest "
               "- new largest)");
  expect_right({1, 1, 2, 128, 64}, kLarge,
               "subtract the largest score before exp(), and add it back in lse");
  expect_right({1, 1, 1, 128, 64}, kCausal,
               "under the causal mask query i sees the keys 0 to i, i included");
  for (const int seq_len : {1, 63, 65, 100}) {
    expect_right({1, 1, 1, seq_len, 64}, kFull,
                 "the last tile's rows behind the sequence are zeros, and exp(0) is not 0: they "
                 "are not seen");
  }
  expect_right({2, 2, 3, 64, 32}, kCausal,
               "head h of queries belongs to head h / group of keys and values");
}

TEST_F(FlashForward, IsRightForAnyShape) {
  test::expect_right_everywhere(*ladder, rung, random, 3);
  expect_right({1, 1, 1, 130, 128}, kFull, "rows of 128 need tiles of 128 columns");
}

TEST_F(FlashForward, LoadsKeysAndValuesOncePerBlock) {
  constexpr int kSeqLen = 256;
  constexpr int kHeadDim = 64;
  const simt::Report report =
      expect_right({1, 1, 1, kSeqLen, kHeadDim}, kFull, "check the indices and the ragged edges");
  // Queries once, keys and values once per 64 rows.
  constexpr std::uint64_t kTensor = sizeof(float) * kSeqLen * kHeadDim;
  constexpr std::uint64_t kLoaded = kTensor * (1 + 2 * kSeqLen / 64);
  test::expect_bytes(report, AccessKind::kGlobalLoad, kLoaded,
                     "the rows of a block share each tile of keys and values");
  test::expect_bytes(
      report, AccessKind::kGlobalStore, kTensor + sizeof(float) * kSeqLen,
      "o and lse are written once, after the last tile; nothing else goes to memory");
  // What was loaded goes into tiles, and so does each weight.
  constexpr std::uint64_t kWeights = sizeof(float) * kSeqLen * kSeqLen;
  test::expect_counted(report, AccessKind::kSharedStore, kLoaded + kWeights);
  EXPECT_EQ(report.launches.size(), 1U);
}

}  // namespace
}  // namespace ultra::ladders
