// What the rungs of attention_backward_bf16 move, in counters.

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/chapters/09_kernels/attention/attention_fixture.hpp"

namespace ultra::ladders {
namespace attention_backward_bf16_ladder_test {

using simt::AccessKind;

class AttentionBackwardBf16Ladder : public AttentionLadderTest {
 protected:
  AttentionBackwardBf16Ladder() : AttentionLadderTest("attention_backward_bf16") {}
};

TEST_F(AttentionBackwardBf16Ladder, StoresEachGradientOnceWithoutAtomics) {
  const simt::Report report = counters_of("tensor_cores", {1, 1, 2, 128, 64}, kCausal);
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).requests, 0U);
  // d_q of two heads, d_k and d_v of one in bf16; delta of two in fp32.
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).bytes, 4 * 128 * 64 * 2 + 2 * 128 * 4);
}

TEST_F(AttentionBackwardBf16Ladder, WeightsStayInRegisters) {
  for (const int head_dim : {64, 128}) {
    const simt::Report report = counters_of("tensor_cores", {1, 1, 1, 128, head_dim}, kFull);
    // Shared memory is written by copies from global memory alone: each kernel's own 128 rows of
    // two tensors, and 128 columns of two.
    EXPECT_EQ(report.total(AccessKind::kSharedStore).bytes,
              std::uint64_t{2} * 4 * 128 * 2 * static_cast<std::uint64_t>(head_dim));
  }
}

TEST_F(AttentionBackwardBf16Ladder, OneKernelAddsToEachTileOfQueriesInTurn) {
  // Two heads of queries: bytes of atomics for the sums, for a block's number, and for each turn's step.
  const auto expect_atomics = [&](const Sizes& sizes, std::uint64_t seed) {
    const auto kv_heads = static_cast<std::uint64_t>(sizes[1]);
    const auto length = static_cast<std::uint64_t>(sizes[3]);
    const auto head_dim = static_cast<std::uint64_t>(sizes[4]);
    const std::uint64_t blocks = (length + 127) / 128;
    std::uint64_t turns = 0;
    std::uint64_t adds = 0;  // the first part is stored
    for (std::uint64_t tile = 0; tile < (length + 63) / 64; ++tile) {
      const std::uint64_t seen = seed == kCausal ? tile * 64 / 128 + 1 : blocks;
      turns += seen;
      adds += seen - 1;
    }
    const std::uint64_t expected =
        2 * adds * 64 * head_dim * 4 + 4 * (kv_heads * blocks + 2 * turns);
    EXPECT_EQ(counters_of("one_kernel", sizes, seed).total(AccessKind::kGlobalAtomic).bytes,
              expected);
  };
  expect_atomics({1, 1, 2, 390, 64}, kFull);
  expect_atomics({1, 1, 2, 390, 64}, kCausal);
  expect_atomics({1, 2, 1, 390, 128}, kCausal);
}

TEST_F(AttentionBackwardBf16Ladder, OneKernelFetchesQueriesOncePerBlockOfKeys) {
  // Rows of 64; one head, 384 queries in tiles of 64, three blocks of 128 keys: k and v once, q and
  // d_o for each block, of a causal problem from its own keys on. delta reads o and d_o once more.
  constexpr std::uint64_t kRow = 64 * 2;
  const auto fetched = [&](std::uint64_t seed) {
    const simt::Report report = counters_of("one_kernel", {1, 1, 1, 384, 64}, seed);
    std::uint64_t bytes = 0;
    for (const simt::Site& site : report.sites) {
      // Boxes, which are larger than any vector.
      if (site.kind == AccessKind::kGlobalLoad && site.size > 16) {
        bytes += site.bytes;
      }
    }
    return bytes;
  };
  EXPECT_EQ(fetched(kFull), 2 * 384 * kRow + 2 * 3 * 384 * kRow);
  EXPECT_EQ(fetched(kCausal), 2 * 384 * kRow + 2 * (384 + 256 + 128) * kRow);
}

TEST_F(AttentionBackwardBf16Ladder, OneKernelTakesAnyLengthAndGrouping) {
  for (const Sizes& sizes : {Sizes{2, 1, 2, 1, 8}, Sizes{1, 2, 1, 300, 128},
                             Sizes{1, 1, 3, 193, 64}, Sizes{1, 1, 1, 321, 72}}) {
    for (const std::uint64_t seed : {kFull, kCausal, kFullLarge, kCausalLarge}) {
      expect_right("one_kernel", {.sizes = sizes, .seed = seed, .executor = simt::Executor::kFast});
    }
    expect_right("one_kernel", {.sizes = sizes, .seed = kCausalLarge});
  }
}

}  // namespace attention_backward_bf16_ladder_test
}  // namespace ultra::ladders

// What each rung of attention_backward changes, in counters.
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
