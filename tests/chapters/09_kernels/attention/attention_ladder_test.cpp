// What each rung of attention changes, in counters.

#include "tests/chapters/09_kernels/attention/attention_fixture.hpp"
#include "tests/support/toolbox.hpp"

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

// What holds for every ladder of attention: the corners of its shapes, its cost, and shared memory
// without conflicts.
namespace ultra::ladders {
namespace attention_ladders_test {
const std::vector<Sizes> kFp32Corners = {{2, 1, 1, 1, 4},   {1, 1, 1, 1, 128},  {3, 2, 1, 65, 16},
                                         {2, 1, 5, 13, 64}, {1, 2, 2, 40, 100}, {1, 2, 3, 17, 128}};
const std::vector<Sizes> kBf16Corners = {{2, 1, 1, 1, 8},    {1, 1, 1, 1, 128}, {3, 2, 1, 65, 16},
                                         {1, 1, 5, 27, 64},  {2, 1, 5, 13, 64}, {1, 2, 2, 40, 104},
                                         {1, 1, 2, 129, 128}};

struct AttentionCase {
  const char* ladder;
  std::vector<Sizes> corners;
  std::vector<std::uint64_t> seeds_of_corners;
  // For each pair of a query and a key that it sees; and tensors like q and like k, of so many
  // bytes an element.
  double operations_per_element;
  double tensors;
  double element_bytes;
  // A length that shows bank conflicts, and the rungs without any: all when empty.
  int seq_len;
  std::vector<std::string> without_conflicts = {};
};

const std::vector<AttentionCase> kCases = {
    {.ladder = "attention",
     .corners = kFp32Corners,
     .seeds_of_corners = {kFull, kCausalLarge},
     .operations_per_element = 4.0,
     .tensors = 2.0,
     .element_bytes = 4.0,
     .seq_len = 64,
     .without_conflicts = {"flash_forward", "flash_causal", "flash_grouped"}},
    {.ladder = "attention_bf16",
     .corners = kBf16Corners,
     .seeds_of_corners = {kFull, kCausalLarge},
     .operations_per_element = 4.0,
     .tensors = 2.0,
     .element_bytes = 2.0,
     .seq_len = 128,
     .without_conflicts = {"swizzled", "pipelined"}},
    {.ladder = "attention_backward",
     .corners = kFp32Corners,
     .seeds_of_corners = {kFullLarge, kCausalLarge},
     .operations_per_element = 10.0,
     .tensors = 4.0,
     .element_bytes = 4.0,
     .seq_len = 64},
    {.ladder = "attention_backward_bf16",
     .corners = kBf16Corners,
     .seeds_of_corners = {kFullLarge, kCausalLarge},
     .operations_per_element = 10.0,
     .tensors = 4.0,
     .element_bytes = 2.0,
     .seq_len = 128}};

class AttentionLadders : public AttentionLadderTest,
                         public ::testing::WithParamInterface<AttentionCase> {
 protected:
  AttentionLadders() : AttentionLadderTest(GetParam().ladder) {}
};

INSTANTIATE_TEST_SUITE_P(All, AttentionLadders, ::testing::ValuesIn(kCases),
                         [](const auto& attention) { return attention.param.ladder; });

TEST_P(AttentionLadders, CornersAreRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes : GetParam().corners) {
      for (const std::uint64_t seed : GetParam().seeds_of_corners) {
        expect_right(rung, {.sizes = sizes, .seed = seed, .executor = simt::Executor::kFast});
      }
    }
  }
}

TEST_P(AttentionLadders, HaveRungsWithoutBankConflicts) {
  const std::vector<std::string>& some = GetParam().without_conflicts;
  for (const std::string& rung : some.empty() ? emulated_rungs() : some) {
    for (const int head_dim : {64, 128}) {
      SCOPED_TRACE(rung + ", head_dim " + std::to_string(head_dim));
      expect_no_bank_conflicts(counters_of(rung, {1, 1, 1, GetParam().seq_len, head_dim}, kFull));
    }
  }
}

TEST_P(AttentionLadders, CostIsOfTheCausalHalfWhereTheSeedIsOdd) {
  const Cost cost = ladder().cost({1, 2, 3, 10, 8});
  EXPECT_EQ(cost.operations, GetParam().operations_per_element * 6.0 * 55.0 * 8.0);
  EXPECT_EQ(ladder().cost({1, 2, 3, 10, 8}, kFull).operations,
            GetParam().operations_per_element * 6.0 * 100.0 * 8.0);
  EXPECT_EQ(cost.least_bytes,
            GetParam().element_bytes * GetParam().tensors * (6.0 * 80.0 + 2.0 * 80.0) + 4.0 * 60.0);
}

}  // namespace attention_ladders_test
}  // namespace ultra::ladders
