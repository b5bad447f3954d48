// What each rung of attention_backward changes, in counters, and the corners of its shapes.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

constexpr std::uint64_t kFull = 4;  // an even seed: no causal mask
constexpr std::uint64_t kCausal = 1;
constexpr std::uint64_t kFullLarge = 2;
constexpr std::uint64_t kCausalLarge = 3;

class AttentionBackwardLadder : public ::testing::Test {
 protected:
  simt::Report counters_of(const char* rung, const Sizes& sizes, std::uint64_t seed) {
    return test::expect_right(*ladder_, test::find_rung(*ladder_, rung),
                              {.sizes = sizes, .seed = seed})
        .report;
  }

  std::unique_ptr<Ladder> ladder_ = test::find_ladder("attention_backward");
};

constexpr std::uint64_t kHeadDim = 64;
constexpr std::uint64_t kTile = 64;
constexpr std::uint64_t kTileBytes = 4 * kTile * kHeadDim;

TEST_F(AttentionBackwardLadder, AtomicsAddEveryTileOfKeysToTheQueries) {
  const Sizes sizes = {1, 1, 1, 128, kHeadDim};
  // Per pair of tiles, an atomic of one float per element of dq: 4 pairs, under the causal mask 3.
  const auto atomic_bytes = [&](std::uint64_t seed) {
    return counters_of("atomics", sizes, seed).total(AccessKind::kGlobalAtomic).bytes;
  };
  EXPECT_EQ(atomic_bytes(kFull), 4 * kTileBytes);
  EXPECT_EQ(atomic_bytes(kCausal), 3 * kTileBytes);
}

TEST_F(AttentionBackwardLadder, SplitStoresEachGradientOnce) {
  const Sizes sizes = {1, 1, 2, 128, kHeadDim};
  const simt::Report report = counters_of("split", sizes, kCausal);
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).requests, 0U);
  // d_q of two heads, d_k and d_v of one, delta of two: 2 tiles a head.
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).bytes,
            (2 * 2 + 2 + 2) * kTileBytes + 4 * 2 * 128);
}

TEST_F(AttentionBackwardLadder, SplitLoadsOnlyPairsOfTilesThatSeeEachOther) {
  constexpr std::uint64_t kSeqLen = 128;
  const Sizes sizes = {1, 1, 1, kSeqLen, kHeadDim};
  const auto loaded = [&](std::uint64_t seed) {
    return counters_of("split", sizes, seed).total(AccessKind::kGlobalLoad).bytes;
  };
  // delta: o and d_o, 4 tiles. Each kernel: two tiles for each of 2 blocks, and two per pair of tiles.
  // A row's lse and delta: by each of the 16 threads of the row, per pair in the keys' kernel and per
  // block in the queries'.
  constexpr std::uint64_t kRowsOfTile = 16 * 8 * kTile;
  const auto expected = [&](std::uint64_t pairs) {
    return (4 + 2 * (2 * 2 + 2 * pairs)) * kTileBytes + (pairs + 2) * kRowsOfTile;
  };
  EXPECT_EQ(loaded(kFull), expected(4));
  EXPECT_EQ(loaded(kCausal), expected(3));
}

TEST_F(AttentionBackwardLadder, HasNoBankConflicts) {
  for (const RungInfo& rung : ladder_->rungs()) {
    for (const int head_dim : {64, 128}) {
      const simt::Report report = counters_of(rung.name.c_str(), {1, 1, 1, 64, head_dim}, kFull);
      for (const AccessKind kind : {AccessKind::kSharedLoad, AccessKind::kSharedStore}) {
        EXPECT_EQ(report.total(kind).wavefronts, report.total(kind).ideal_wavefronts)
            << rung.name << ", head_dim " << head_dim << '\n'
            << simt::to_table(report);
      }
    }
  }
}

TEST_F(AttentionBackwardLadder, CornersAreRight) {
  const std::vector<Sizes> corners = {{2, 1, 1, 1, 4},   {1, 1, 1, 1, 128},  {3, 2, 1, 65, 16},
                                      {2, 1, 5, 13, 64}, {1, 2, 2, 40, 100}, {1, 2, 3, 17, 128}};
  for (const RungInfo& rung : ladder_->rungs()) {
    for (const Sizes& sizes : corners) {
      for (const std::uint64_t seed : {kFullLarge, kCausalLarge}) {
        test::expect_right(*ladder_, rung.number,
                           {.sizes = sizes, .seed = seed, .side = simt::Side::kBare});
      }
    }
  }
}

TEST_F(AttentionBackwardLadder, CostIsOfTheCausalHalf) {
  const Cost cost = ladder_->cost({1, 2, 3, 10, 8});
  EXPECT_EQ(cost.operations, 10.0 * 6.0 * 55.0 * 8.0);
  EXPECT_EQ(cost.least_bytes, 4.0 * (4.0 * 6.0 * 80.0 + 4.0 * 2.0 * 80.0 + 60.0));
}

}  // namespace
}  // namespace ultra::ladders
