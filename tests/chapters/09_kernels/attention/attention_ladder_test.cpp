// What each rung of attention changes, in counters, and the corners of its shapes.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

constexpr std::uint64_t kFull = 4;  // an even seed: no causal mask
constexpr std::uint64_t kCausal = 1;
constexpr std::uint64_t kCausalLarge = 3;

class AttentionLadder : public ::testing::Test {
 protected:
  simt::Report counters_of(const char* rung, const Sizes& sizes, std::uint64_t seed) {
    return test::expect_right(*ladder_, test::find_rung(*ladder_, rung),
                              {.sizes = sizes, .seed = seed})
        .report;
  }
  std::uint64_t loaded(const char* rung, const Sizes& sizes, std::uint64_t seed) {
    return counters_of(rung, sizes, seed).total(AccessKind::kGlobalLoad).bytes;
  }
  std::uint64_t stored(const char* rung, const Sizes& sizes, std::uint64_t seed) {
    return counters_of(rung, sizes, seed).total(AccessKind::kGlobalStore).bytes;
  }

  std::unique_ptr<Ladder> ladder_ = test::find_ladder("attention");
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
  // Stored by the scores and twice by the softmax; its loads are three passes of the softmax, D of the
  // output, and two per product of the scores.
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

TEST_F(AttentionLadder, FlashHasNoBankConflicts) {
  for (const char* const rung : {"flash_forward", "flash_causal", "flash_grouped"}) {
    for (const int head_dim : {64, 128}) {
      const simt::Report report = counters_of(rung, {1, 1, 1, 64, head_dim}, kFull);
      for (const AccessKind kind : {AccessKind::kSharedLoad, AccessKind::kSharedStore}) {
        EXPECT_EQ(report.total(kind).wavefronts, report.total(kind).ideal_wavefronts)
            << rung << ", head_dim " << head_dim << '\n'
            << simt::to_table(report);
      }
    }
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
  // 4 heads of 128 queries in tiles of 128 rows: 4 blocks, each with both tiles of keys; rung 5 has 8.
  const Sizes sizes = {1, 1, 4, 128, kHeadDim};
  constexpr std::uint64_t kTile = std::uint64_t{4} * 64 * kHeadDim;
  EXPECT_EQ(loaded("flash_causal", sizes, kFull), kTile * (8 + 2 * 8 * 2));
  EXPECT_EQ(loaded("flash_grouped", sizes, kFull), kTile * (8 + 2 * 4 * 2));
  // A block's rows are 32 queries: the first two blocks see 32 and 64 keys, a tile each.
  EXPECT_EQ(loaded("flash_grouped", sizes, kCausal), kTile * (8 + 2 * (1 + 1 + 2 + 2)));
}

TEST_F(AttentionLadder, CornersAreRight) {
  const std::vector<Sizes> corners = {{2, 1, 1, 1, 4},   {1, 1, 1, 1, 128},  {3, 2, 1, 65, 16},
                                      {2, 1, 5, 13, 64}, {1, 2, 2, 40, 100}, {1, 2, 3, 17, 128}};
  for (const RungInfo& rung : ladder_->rungs()) {
    for (const Sizes& sizes : corners) {
      for (const std::uint64_t seed : {kFull, kCausalLarge}) {
        test::expect_right(*ladder_, rung.number,
                           {.sizes = sizes, .seed = seed, .side = simt::Side::kBare});
      }
    }
  }
}

TEST_F(AttentionLadder, RefusalsSayWhy) {
  const int online = test::find_rung(*ladder_, "online");
  const int flash = test::find_rung(*ladder_, "flash_forward");
  const auto refusal = [&](int rung, const Sizes& sizes) {
    return ladder_->refusal(rung, sizes, simt::Side::kBare);
  };
  EXPECT_EQ(refusal(online, {1, 1, 1, 8, 129}),
            "head_dim is 129, expected at most 128: rows are held in registers");
  EXPECT_EQ(refusal(flash, {1, 1, 1, 8, 6}),
            "head_dim is 6, expected a multiple of 4: rows are loaded 16 bytes at once");
  EXPECT_EQ(refusal(flash, {1, 1, 1, 8, 128}), "");
  EXPECT_NE(refusal(1, {64, 8, 8, 8192, 64}), "");
  EXPECT_EQ(refusal(online, {64, 8, 8, 8192, 64}), "");
}

TEST_F(AttentionLadder, CostIsOfTheCausalHalf) {
  const Cost cost = ladder_->cost({1, 2, 3, 10, 8});
  EXPECT_EQ(cost.operations, 4.0 * 6.0 * 55.0 * 8.0);
  EXPECT_EQ(cost.least_bytes, 4.0 * (2.0 * 6.0 * 80.0 + 2.0 * 2.0 * 80.0 + 60.0));
}

}  // namespace
}  // namespace ultra::ladders
