// What each rung of attention_backward changes, in counters.

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/chapters/09_kernels/attention/attention_fixture.hpp"

namespace ultra::ladders {
namespace attention_backward_ladder_test {

using simt::AccessKind;

class AttentionBackwardLadder : public AttentionLadderTest {
 protected:
  AttentionBackwardLadder() : AttentionLadderTest("attention_backward") {}
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
  // delta: o and d_o, 4 tiles. Each kernel: two tiles for each of 2 blocks, and two per pair of
  // tiles. A row's lse and delta: by each of the 16 threads of the row, per pair in the keys'
  // kernel and per block in the queries'.
  constexpr std::uint64_t kRowsOfTile = 16 * 8 * kTile;
  const auto expected = [&](std::uint64_t pairs) {
    return (4 + 2 * (2 * 2 + 2 * pairs)) * kTileBytes + (pairs + 2) * kRowsOfTile;
  };
  EXPECT_EQ(loaded("split", sizes, kFull), expected(4));
  EXPECT_EQ(loaded("split", sizes, kCausal), expected(3));
}

}  // namespace attention_backward_ladder_test
}  // namespace ultra::ladders
