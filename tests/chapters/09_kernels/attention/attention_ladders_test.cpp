// What each rung of attention and of its backward pass changes, in counters.

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {

// Seeds.
constexpr std::uint64_t kFull = 4;  // even: no causal mask
constexpr std::uint64_t kCausal = 1;

}  // namespace ultra::ladders

// What each rung of attention changes, in counters.
namespace ultra::ladders::attention_ladder_test {

using simt::AccessKind;

using AttentionLadder = test::LadderOf<"attention">;

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

TEST(AttentionLadders, CostIsOfTheCausalHalfWhereTheSeedIsOdd) {
  // For each pair of a query and a key that it sees; and tensors like q and like k, of so many bytes an
  // element.
  struct Row {
    const char* ladder;
    double operations_per_element;
    double tensors;
    double element_bytes;
  };
  for (const Row& row : {Row{"attention", 4.0, 2.0, 4.0}, Row{"attention_bf16", 4.0, 2.0, 2.0},
                         Row{"attention_backward", 10.0, 4.0, 4.0},
                         Row{"attention_backward_bf16", 10.0, 4.0, 2.0}}) {
    const auto ladder = test::find_ladder(row.ladder);
    const Cost cost = ladder->cost({1, 2, 3, 10, 8});
    EXPECT_EQ(cost.operations, row.operations_per_element * 6.0 * 55.0 * 8.0) << row.ladder;
    EXPECT_EQ(ladder->cost({1, 2, 3, 10, 8}, kFull).operations,
              row.operations_per_element * 6.0 * 100.0 * 8.0);
    EXPECT_EQ(cost.least_bytes,
              row.element_bytes * row.tensors * (6.0 * 80.0 + 2.0 * 80.0) + 4.0 * 60.0);
  }
}

}  // namespace ultra::ladders::attention_ladder_test

// What each rung of attention_bf16 changes, in counters.
namespace ultra::ladders::attention_bf16_ladder_test {

using simt::AccessKind;

constexpr std::uint64_t kHeadDim = 64;

using AttentionBf16Ladder = test::LadderOf<"attention_bf16">;

TEST_F(AttentionBf16Ladder, LoadsHalfTheBytesOfFp32AndSkipsWhatIsMasked) {
  // Tiles of 64 rows, 2 bytes an element. 256 queries are two blocks; of 2 x 4 tiles of keys, the
  // causal mask leaves 2 + 4.
  constexpr std::uint64_t kTile = 2 * 64 * kHeadDim;
  const Sizes sizes = {1, 1, 1, 256, kHeadDim};
  for (const std::string& rung : emulated_rungs()) {
    EXPECT_EQ(loaded(rung, sizes, kFull), kTile * (4 + 2 * 8)) << rung;
    EXPECT_EQ(loaded(rung, sizes, kCausal), kTile * (4 + 2 * 6)) << rung;
  }
}

TEST_F(AttentionBf16Ladder, StoresOnlyOutputs) {
  const Sizes sizes = {1, 1, 1, 128, kHeadDim};
  for (const std::string& rung : emulated_rungs()) {
    EXPECT_EQ(stored(rung, sizes, kCausal), 128 * (2 * kHeadDim + 4)) << rung;
  }
}

TEST_F(AttentionBf16Ladder, PlainRowsBeginInOneBank) {
  for (const int head_dim : {64, 128}) {
    const simt::Report report = counters_of("tensor_cores", {1, 1, 1, 128, head_dim}, kFull);
    for (const simt::Site& site : report.sites) {
      if (site.kind == AccessKind::kSharedLoad) {
        // Pairs of queries or keys, 4 bytes: 4 words of each of 8 rows. Single values, 2 bytes: 4
        // words of each of 4 rows.
        EXPECT_EQ(site.wavefronts_per_request(), site.size == 4 ? 8.0 : 4.0) << site.line;
        EXPECT_EQ(site.ideal_wavefronts, site.requests) << site.line;
      }
    }
  }
}

TEST_F(AttentionBf16Ladder, FourMatricesAreLoadedAtOnce) {
  // D = 64, one tile of 64 keys for each of two, 4 warps. Queries: 2 tiles of 16 rows in 4 steps of
  // 16 columns; keys and values: 4 x 4 squares of 16. Each is one request; rung 1 makes 4 of 4
  // bytes for a square of queries or keys, and 8 of 2 bytes for one of values.
  constexpr std::uint64_t kTimes = 2 * 4;
  const Sizes sizes = {1, 1, 1, 128, kHeadDim};
  const auto requests = [&](const char* rung) {
    return counters_of(rung, sizes, kFull).total(AccessKind::kSharedLoad).requests;
  };
  EXPECT_EQ(requests("swizzled"), kTimes * (2 * 4 + 16 + 16));
  EXPECT_EQ(requests("tensor_cores"), kTimes * (4 * (2 * 4) + 4 * 16 + 8 * 16));
}

TEST_F(AttentionBf16Ladder, WarpgroupsFetchEachTileOnceForAllQueriesOfABlock) {
  // Rows of 64: two blocks of 192 queries, tiles of 128 keys; causal, the first block needs two of
  // the three. Queries, keys and values arrive by TMA alone.
  constexpr std::uint64_t kTile = 128 * kHeadDim * 2;
  const Sizes sizes = {1, 1, 1, 384, kHeadDim};
  for (const char* const rung : {"warpgroups", "ping_pong", "persistent"}) {
    EXPECT_EQ(loaded(rung, sizes, kFull), kTile * (3 + 2 * (3 + 3))) << rung;
    EXPECT_EQ(loaded(rung, sizes, kCausal), kTile * (3 + 2 * (2 + 3))) << rung;
    EXPECT_EQ(stored(rung, sizes, kCausal), 384 * (2 * kHeadDim + 4)) << rung;
  }
}

TEST_F(AttentionBf16Ladder, BlocksThatStayComputeEachTileOnce) {
  // Four multiprocessors; 3 heads of 3 tiles, of 192 queries or of 128: blocks have two or three, and
  // the last round is short. A tile is fetched with all tiles of 128 keys that it sees.
  const auto expect_once = [&](const Sizes& sizes, std::uint64_t seed, std::uint64_t key_tiles) {
    const std::uint64_t row = 2 * static_cast<std::uint64_t>(sizes[4]);
    const auto length = static_cast<std::uint64_t>(sizes[3]);
    const simt::Report report = counters_of("persistent", sizes, seed);
    EXPECT_EQ(report.total(AccessKind::kGlobalStore).bytes, 3 * length * (row + 4));
    EXPECT_EQ(report.total(AccessKind::kGlobalLoad).bytes, 3 * row * (length + key_tiles * 128));
  };
  expect_once({1, 1, 3, 512, 64}, kFull, 2 * 3 * 4);
  expect_once({1, 1, 3, 512, 64}, kCausal, 2 * (2 + 3 + 4));
  expect_once({1, 3, 1, 384, 128}, kCausal, 2 * (1 + 2 + 3));
}

}  // namespace ultra::ladders::attention_bf16_ladder_test

// What the rungs of attention_backward_bf16 move, in counters.
namespace ultra::ladders::attention_backward_bf16_ladder_test {

using simt::AccessKind;

using AttentionBackwardBf16Ladder = test::LadderOf<"attention_backward_bf16">;

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

}  // namespace ultra::ladders::attention_backward_bf16_ladder_test

// What each rung of attention_backward changes, in counters.
namespace ultra::ladders::attention_backward_ladder_test {

using simt::AccessKind;

using AttentionBackwardLadder = test::LadderOf<"attention_backward">;

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

}  // namespace ultra::ladders::attention_backward_ladder_test
