// What the rungs over packs of documents change, in counters.
// Covers: chapters/09_kernels/attention/packed_documents.hpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chapters/09_kernels/attention/packed_documents.hpp"
#include "kernels/ladders/attention/attention_varlen/attention_varlen.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace varlen_ladders_test {

using simt::AccessKind;

constexpr std::uint64_t kFull = 4;  // even: no causal mask
constexpr std::uint64_t kCausal = 5;
constexpr std::uint64_t kHeadDim = 64;
constexpr int kQueries = 128;  // of a tile
constexpr int kKeys = 64;      // of a tile, for rows of 64

int tiles(int count, int size) { return (count + size - 1) / size; }

class AttentionVarlenLadder : public test::LadderTest {
 protected:
  AttentionVarlenLadder() : LadderTest("attention_varlen") {}

  // Bytes of queries, keys and values that copies bring: those of 16 bytes.
  [[nodiscard]] std::uint64_t copied(const std::string& rung, const Sizes& sizes,
                                     std::uint64_t seed) const {
    std::uint64_t bytes = 0;
    for (const simt::Site& site : counters_of(rung, sizes, seed).sites) {
      if (site.kind == AccessKind::kGlobalLoad && site.size == 16) {
        bytes += site.bytes;
      }
    }
    return bytes;
  }
};

// A copy of a tile of keys reads the rows that there are: the last tile's fewer.
std::uint64_t bytes_of_rows(int rows) { return 2 * kHeadDim * static_cast<std::uint64_t>(rows); }

TEST_F(AttentionVarlenLadder, MaskedReadsAllKeysForEveryTileOfQueries) {
  const Sizes sizes = {4, 100, 1, 1, kHeadDim};
  const int tokens = PackedDocuments(sizes, kFull).begins.back();
  EXPECT_EQ(copied("masked", sizes, kFull),
            bytes_of_rows(tokens + 2 * tokens * tiles(tokens, kQueries)));
}

// Each tile of 128 queries of a document reads the keys that its last query sees.
TEST_F(AttentionVarlenLadder, TilesOfDocumentsReadWhatDocumentsSee) {
  const Sizes sizes = {5, 150, 1, 1, kHeadDim};
  int full = 0;
  int causal = 0;
  int tokens = 0;
  for (const int length : sequence_lengths(sizes, kFull)) {
    tokens += length;
    full += length * tiles(length, kQueries);
    for (int query = 0; query < length; query += kQueries) {
      const int seen = std::min(length, tiles(std::min(length, query + kQueries), kKeys) * kKeys);
      causal += seen;
    }
  }
  EXPECT_EQ(copied("tiles_of_documents", sizes, kFull), bytes_of_rows(tokens + 2 * full));
  EXPECT_EQ(copied("tiles_of_documents", sizes, kCausal), bytes_of_rows(tokens + 2 * causal));
}

// The range from the first query's document to the last query's.
TEST_F(AttentionVarlenLadder, BoundedReadsTheDocumentsOfItsQueries) {
  const Sizes sizes = {6, 90, 1, 1, kHeadDim};
  const PackedDocuments packed(sizes, kFull);
  const std::vector<int> document_of = packed.document_of();
  const int tokens = packed.begins.back();
  int keys = 0;
  for (int query = 0; query < tokens; query += kQueries) {
    const auto first = static_cast<std::size_t>(query);
    const auto last = static_cast<std::size_t>(std::min(query + kQueries, tokens) - 1);
    const int begin = packed.begins.at(static_cast<std::size_t>(document_of.at(first)));
    const int end = packed.begins.at(static_cast<std::size_t>(document_of.at(last)) + 1);
    keys += std::min(tokens - begin, tiles(end - begin, kKeys) * kKeys);
  }
  EXPECT_EQ(copied("bounded", sizes, kFull), bytes_of_rows(tokens + 2 * keys));
}

// One document of all tokens is attention_bf16.
TEST_F(AttentionVarlenLadder, ADocumentAloneIsASequence) {
  const auto plain = test::find_ladder("attention_bf16");
  const Sizes one = {1, 200, 1, 2, kHeadDim};
  const int tokens = PackedDocuments(one, kCausal).begins.back();
  const Sizes sequence = {1, 1, 2, tokens, kHeadDim};
  const auto total = [](const simt::Report& report) {
    return report.total(AccessKind::kSharedLoad).requests;
  };
  const simt::Report expected = test::expect_right(*plain, test::find_rung(*plain, "pipelined"),
                                                   {.sizes = sequence, .seed = kCausal})
                                    .report;
  const std::uint64_t blocks = 2 * (static_cast<std::uint64_t>(tiles(tokens, kQueries)) + 1);
  const std::uint64_t used = blocks - 2;
  EXPECT_EQ(total(counters_of("tiles_of_documents", one, kCausal)),
            total(expected) + 4 * (blocks + used));  // each warp reads its tile's place
}

TEST_F(AttentionVarlenLadder, CornersAreRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes : std::vector<Sizes>{
             {1, 1, 1, 1, 8}, {9, 20, 1, 1, 32}, {3, 130, 2, 1, 72}, {150, 2, 1, 1, 16}}) {
      for (const std::uint64_t seed : {kFull, kCausal, std::uint64_t{6}, std::uint64_t{7}}) {
        expect_right(rung, {.sizes = sizes, .seed = seed, .executor = simt::Executor::kFast});
      }
    }
  }
}

TEST_F(AttentionVarlenLadder, RefusalSaysWhy) {
  EXPECT_EQ(refusal_of("bounded", {2, 8, 1, 1, 20}),
            "head_dim is 20, expected a multiple of 8, at most 128");
}

class AttentionBackwardVarlenLadder : public test::LadderTest {
 protected:
  AttentionBackwardVarlenLadder() : LadderTest("attention_backward_varlen") {}
};

TEST_F(AttentionBackwardVarlenLadder, CornersAreRight) {
  for (const Sizes& sizes :
       std::vector<Sizes>{{1, 1, 1, 1, 8}, {7, 20, 1, 2, 32}, {3, 140, 1, 1, 72}}) {
    for (const std::uint64_t seed : {kFull, kCausal}) {
      expect_right("tiles_of_documents", {.sizes = sizes, .seed = seed});
    }
  }
}

TEST_F(AttentionBackwardVarlenLadder, AddsNothingByAtomics) {
  EXPECT_EQ(
      counters_of("tiles_of_documents", {3, 40, 1, 2, 32}).total(AccessKind::kGlobalAtomic).lanes,
      0U);
}

TEST(PackedDocuments, AreRowsOfThePack) {
  const PackedDocuments packed({3, 10, 2, 1, 8}, 1);
  const auto tokens = static_cast<std::size_t>(packed.begins.back());
  const AttentionInputs second = packed.document(1);
  const auto begin = static_cast<std::size_t>(packed.begins[1]);
  const auto length = static_cast<std::size_t>(second.shape.seq_len);
  ASSERT_EQ(second.k.size(), 2 * length * 8);
  EXPECT_EQ(second.k.at(length * 8), packed.pack.k.at((tokens + begin) * 8));
  EXPECT_EQ(packed.document_of().at(begin), 1);
  EXPECT_EQ(kernels::attention_varlen::most_tiles(300, 4), 3U + 4U);
}

}  // namespace varlen_ladders_test
}  // namespace ultra::ladders
