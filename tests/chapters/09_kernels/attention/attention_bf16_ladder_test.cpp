// What each rung of attention_bf16 changes, in counters.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/chapters/09_kernels/attention/attention_fixture.hpp"

namespace ultra::ladders {
namespace attention_bf16_ladder_test {

using simt::AccessKind;

constexpr std::uint64_t kHeadDim = 64;

class AttentionBf16Ladder : public AttentionLadderTest {
 protected:
  AttentionBf16Ladder() : AttentionLadderTest("attention_bf16") {}
};

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

TEST_F(AttentionBf16Ladder, RefusalSaysWhy) {
  for (const std::string& rung : emulated_rungs()) {
    EXPECT_EQ(refusal_of(rung, {1, 1, 1, 8, 20}),
              "head_dim is 20, expected a multiple of 8, at most 128");
    EXPECT_EQ(refusal_of(rung, {1, 1, 1, 8, 120}), "");
  }
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

TEST_F(AttentionBf16Ladder, WarpgroupsTakeAnyLengthAndGrouping) {
  for (const char* const rung : {"warpgroups", "ping_pong", "persistent"}) {
    for (const Sizes& sizes : {Sizes{2, 1, 2, 1, 8}, Sizes{1, 2, 1, 260, 128},
                               Sizes{1, 1, 3, 193, 64}, Sizes{1, 1, 1, 450, 40}}) {
      for (const std::uint64_t seed : {kFull, kCausal}) {
        for (const simt::Executor executor : {simt::Executor::kChecked, simt::Executor::kFast}) {
          expect_right(rung, {.sizes = sizes, .seed = seed, .executor = executor});
        }
      }
    }
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

TEST_F(AttentionBf16Ladder, OutputThatLeavesByTmaIsStoredInWholeSectors) {
  const Sizes sizes = {1, 1, 1, 384, kHeadDim};
  const auto sectors = [&](const char* rung) {
    return counters_of(rung, sizes, kFull).total(AccessKind::kGlobalStore).sectors;
  };
  // o in sectors of 32 bytes; lse in sectors, of which a store of 8 rows touches one.
  EXPECT_EQ(sectors("persistent"), 384 * (2 * kHeadDim / 32) + 384 / 8);
  // 16 bytes of each of 8 rows at once: every sector twice.
  EXPECT_EQ(sectors("ping_pong"), 2 * 384 * (2 * kHeadDim / 32) + 384 / 8);
}

TEST_F(AttentionBf16Ladder, WarpgroupsNeedRowsOfSixteenBytes) {
  EXPECT_EQ(refusal_of("warpgroups", {1, 1, 1, 8, 64}), "");
  EXPECT_EQ(refusal_of("warpgroups", {1, 1, 1, 8, 20}),
            "head_dim is 20, expected a multiple of 8, at most 128");
}

}  // namespace attention_bf16_ladder_test
}  // namespace ultra::ladders
