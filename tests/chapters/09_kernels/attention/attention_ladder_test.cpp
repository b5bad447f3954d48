// What each rung of attention changes, in counters.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/chapters/09_kernels/attention/attention_fixture.hpp"

namespace ultra::ladders {
namespace attention_ladder_test {

using simt::AccessKind;

class AttentionLadder : public AttentionLadderTest {
 protected:
  AttentionLadder() : AttentionLadderTest("attention") {}
};

// One head, S = 128, D = 64: whole tiles of every rung.
constexpr int kSeqLen = 128;
constexpr int kHeadDim = 64;
const Sizes kOneHead = {1, 1, 1, kSeqLen, kHeadDim};
constexpr std::uint64_t kMatrix = std::uint64_t{4} * kSeqLen * kSeqLen;
constexpr std::uint64_t kTriangle = std::uint64_t{4} * kSeqLen * (kSeqLen + 1) / 2;
constexpr std::uint64_t kTensor = std::uint64_t{4} * kSeqLen * kHeadDim;
constexpr std::uint64_t kLse = std::uint64_t{4} * kSeqLen;

TEST_F(AttentionLadder, NaiveStoresTheMatrixThreeTimes) {
  // Stored by the scores and twice by the softmax; its loads are three passes of the softmax, D of
  // the output, and two per product of the scores.
  EXPECT_EQ(stored("naive", kOneHead, kCausal), 3 * kMatrix + kTensor + kLse);
  EXPECT_EQ(loaded("naive", kOneHead, kCausal), kMatrix * (3 + 2 * kHeadDim + 2 * kHeadDim));
}

TEST_F(AttentionLadder, FusedStoresTheTriangleOnce) {
  EXPECT_EQ(stored("fused", kOneHead, kCausal), kTriangle + kTensor + kLse);
  EXPECT_EQ(stored("fused", kOneHead, kFull), kMatrix + kTensor + kLse);
  // Two loads per product of scores and output; the output's threads load a row's lse once each.
  EXPECT_EQ(loaded("fused", kOneHead, kCausal), kTriangle * 4 * kHeadDim + kTensor);
}

TEST_F(AttentionLadder, OnlineStoresNoMatrixAndLoadsKeysPerRow) {
  EXPECT_EQ(stored("online", kOneHead, kCausal), kTensor + kLse);
  EXPECT_EQ(loaded("online", kOneHead, kCausal), kTensor + kTriangle * 2 * kHeadDim);
  const simt::Report report = counters_of("online", kOneHead, kCausal);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 4.0);
}

TEST_F(AttentionLadder, FlashLoadsKeysOncePerTileOfRows) {
  constexpr std::uint64_t kTiles = kSeqLen / 64;
  for (const std::uint64_t seed : {kFull, kCausal}) {
    EXPECT_EQ(loaded("flash_forward", kOneHead, seed), kTensor + kTiles * 2 * kTensor);
    EXPECT_EQ(stored("flash_forward", kOneHead, seed), kTensor + kLse);
  }
}

TEST_F(AttentionLadder, CausalSkipsTilesAboveTheDiagonal) {
  // Four tiles of queries: of 16 tiles of keys, the causal mask leaves 4 * 5 / 2.
  const Sizes sizes = {1, 1, 1, 256, kHeadDim};
  constexpr std::uint64_t kTile = std::uint64_t{4} * 64 * kHeadDim;
  EXPECT_EQ(loaded("flash_forward", sizes, kCausal), kTile * (4 + 2 * 16));
  EXPECT_EQ(loaded("flash_causal", sizes, kFull), kTile * (4 + 2 * 16));
  EXPECT_EQ(loaded("flash_causal", sizes, kCausal), kTile * (4 + 2 * 10));
}

TEST_F(AttentionLadder, GroupsShareKeysAndValues) {
  // 4 heads of 128 queries in tiles of 128 rows: 4 blocks, each with both tiles of keys; rung 5 has
  // 8.
  const Sizes sizes = {1, 1, 4, 128, kHeadDim};
  constexpr std::uint64_t kTile = std::uint64_t{4} * 64 * kHeadDim;
  EXPECT_EQ(loaded("flash_causal", sizes, kFull), kTile * (8 + 2 * 8 * 2));
  EXPECT_EQ(loaded("flash_grouped", sizes, kFull), kTile * (8 + 2 * 4 * 2));
  // A block's rows are 32 queries: the first two blocks see 32 and 64 keys, a tile each.
  EXPECT_EQ(loaded("flash_grouped", sizes, kCausal), kTile * (8 + 2 * (1 + 1 + 2 + 2)));
}

TEST_F(AttentionLadder, RefusalsSayWhy) {
  EXPECT_EQ(refusal_of("online", {1, 1, 1, 8, 129}),
            "head_dim is 129, expected at most 128: rows are held in registers");
  EXPECT_EQ(refusal_of("flash_forward", {1, 1, 1, 8, 6}),
            "head_dim is 6, expected a multiple of 4: rows are loaded 16 bytes at once");
  EXPECT_EQ(refusal_of("flash_forward", {1, 1, 1, 8, 128}), "");
  EXPECT_NE(refusal_of("naive", {64, 8, 8, 8192, 64}), "");
  EXPECT_EQ(refusal_of("online", {64, 8, 8, 8192, 64}), "");
}

}  // namespace attention_ladder_test
}  // namespace ultra::ladders
