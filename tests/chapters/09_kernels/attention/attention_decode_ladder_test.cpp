// What the rungs of attention_decode change, in counters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/ladders/attention/attention_decode/attention_decode.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace attention_decode_ladder_test {

using simt::AccessKind;

constexpr std::uint64_t kSeed = 1;
constexpr int kGroup = 4;
constexpr std::uint64_t kHeadDim = 64;

// A batch of one sequence, whose length is then `tokens`; two heads of keys.
class AttentionDecodeLadder : public test::LadderTest {
 protected:
  AttentionDecodeLadder() : LadderTest("attention_decode", {1, kTokens, 2, kGroup, kHeadDim}) {}

  static constexpr int kTokens = 600;
  static constexpr std::uint64_t kOneReading = 2 * 2 * kTokens * 2 * kHeadDim;  // keys and values
  static constexpr std::uint64_t kQueries = 2 * kGroup * 2 * kHeadDim;

  // Bytes of rows: loads of 16.
  [[nodiscard]] std::uint64_t rows_read(const char* rung) const {
    std::uint64_t bytes = 0;
    for (const simt::Site& site : counters_of(rung).sites) {
      bytes += site.kind == AccessKind::kGlobalLoad && site.size == 16 ? site.bytes : 0;
    }
    return bytes;
  }
};

// Each of the 8 groups of lanes of a block has the queries.
TEST_F(AttentionDecodeLadder, ABlockPerHeadReadsKeysForEachHead) {
  EXPECT_EQ(rows_read("block_per_head"), kGroup * kOneReading + 8 * kQueries);
}

TEST_F(AttentionDecodeLadder, GroupedReadsKeysOnce) {
  EXPECT_EQ(rows_read("grouped"), kOneReading + 8 * kQueries);
}

TEST_F(AttentionDecodeLadder, SplitReadsKeysOnceInMoreBlocks) {
  constexpr std::uint64_t kParts = 3;  // of 256 keys
  EXPECT_EQ(rows_read("split"), kOneReading + kParts * 8 * kQueries);
  const simt::Report report = counters_of("split");
  ASSERT_EQ(report.launches.size(), 2U);
  EXPECT_EQ(report.launches[0].grid.count(), 2 * kParts);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).bytes,
            2 * kGroup * (kParts * 4 * (kHeadDim + 1) + 2 * kHeadDim));
}

TEST_F(AttentionDecodeLadder, PartialSumsHaveNoBankConflicts) {
  for (const std::string& rung : emulated_rungs()) {
    const simt::Site store = counters_of(rung).total(AccessKind::kSharedStore);
    EXPECT_LE(store.wavefronts, store.ideal_wavefronts + store.requests / 2) << rung;
  }
}

TEST_F(AttentionDecodeLadder, CornersAreRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes : std::vector<Sizes>{{1, 1, 1, 1, 8},
                                                 {2, 17, 1, 8, 128},
                                                 {1, 256, 1, 2, 64},
                                                 {3, 257, 2, 1, 40},
                                                 {1, 800, 1, 5, 16}}) {
      for (const std::uint64_t seed : {kSeed, std::uint64_t{2}}) {
        expect_right(rung, {.sizes = sizes, .seed = seed});
      }
    }
  }
}

TEST_F(AttentionDecodeLadder, RefusesWhatItCannotDo) {
  EXPECT_THAT(refusal_of("split", {1, 8, 1, 9, 64}), testing::HasSubstr("expected at most 8"));
  EXPECT_THAT(refusal_of("split", {1, 8, 1, 1, 60}), testing::HasSubstr("multiple of 8"));
  EXPECT_THAT(refusal_of("grouped", {1, 30000, 1, 4, 64}), testing::HasSubstr("rung 3 divides"));
  EXPECT_EQ(refusal_of("block_per_head", {1, 30000, 1, 4, 64}), "");
  EXPECT_EQ(refusal_of("split", {1, 1 << 20, 1, 4, 64}), "");
}

}  // namespace attention_decode_ladder_test
}  // namespace ultra::ladders
