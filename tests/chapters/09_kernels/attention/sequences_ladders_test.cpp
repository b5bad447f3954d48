// What rungs over sequences of many lengths change, in counters.
// Covers: chapters/09_kernels/attention/packed_documents.hpp

#include "chapters/09_kernels/attention/packed_documents.hpp"
#include "kernels/ladders/attention/attention_decode/attention_decode.hpp"
#include "kernels/ladders/attention/attention_varlen/attention_varlen.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

// What each rung of packed_sequences changes, in counters, worked out from the lengths.
namespace ultra::ladders::packed_sequences_ladder_test {

using simt::AccessKind;

class PackedSequencesLadder : public test::LadderTest {
 protected:
  PackedSequencesLadder() : LadderTest("packed_sequences", {static_cast<int>(kSequences), 40}) {}

  simt::Site loads_of(const char* rung) { return counters_of(rung).total(AccessKind::kGlobalLoad); }

  // How often the loops of warps run, each as often as its longest lane's.
  static std::uint64_t rounds(const std::vector<int>& lengths_of_lanes) {
    std::uint64_t sum = 0;
    for (std::size_t first = 0; first < kSequences; first += 32) {
      const auto warp = lengths_of_lanes.begin() + static_cast<std::ptrdiff_t>(first);
      sum += static_cast<std::uint64_t>(*std::max_element(warp, warp + 32));
    }
    return sum;
  }

  static constexpr std::size_t kSequences = 96;  // three full warps

  std::vector<int> lengths = sequence_lengths(sizes_, RunRequest{}.seed);
  std::uint64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
};

// Besides its losses, a thread loads where its sequence begins and ends.
TEST_F(PackedSequencesLadder, AWarpRunsAsLongAsItsLongestSequence) {
  const simt::Site loads = loads_of("thread_per_sequence");
  EXPECT_EQ(loads.lanes, tokens + 2 * kSequences);
  EXPECT_EQ(loads.requests, rounds(lengths) + 2 * (kSequences / 32));
}

// And its sequence's number.
TEST_F(PackedSequencesLadder, SortedSequencesLeaveFewLanesIdle) {
  const simt::Site unsorted = loads_of("thread_per_sequence");
  const simt::Site loads = loads_of("sorted_by_length");
  std::ranges::sort(lengths, std::greater{});
  EXPECT_EQ(loads.lanes, tokens + 3 * kSequences);
  EXPECT_EQ(loads.requests, rounds(lengths) + 3 * (kSequences / 32));
  EXPECT_GT(loads.lanes_per_request(), unsorted.lanes_per_request());
}

// All lanes of a warp load where the sequence begins and ends. A request of neighbours touches at
// most 5 sectors.
TEST_F(PackedSequencesLadder, AWarpSharesASequence) {
  const simt::Site loads = loads_of("warp_per_sequence");
  std::uint64_t requests = 2 * kSequences;
  for (const int length : lengths) {
    requests += (static_cast<std::uint64_t>(length) + 31) / 32;
  }
  EXPECT_EQ(loads.lanes, tokens + 2 * 32 * kSequences);
  EXPECT_EQ(loads.requests, requests);
  EXPECT_LE(loads.sectors_per_request(), 5.0);
}

TEST_F(PackedSequencesLadder, TokensDoNotDependOnTheSeed) {
  const std::vector<int> other = sequence_lengths(sizes_, 77);
  EXPECT_NE(other, lengths);
  EXPECT_EQ(std::accumulate(other.begin(), other.end(), std::uint64_t{0}), tokens);
}

}  // namespace ultra::ladders::packed_sequences_ladder_test

// What the rungs over packs of documents change, in counters.
namespace ultra::ladders::varlen_ladders_test {

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

using AttentionBackwardVarlenLadder = test::LadderOf<"attention_backward_varlen">;

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

}  // namespace ultra::ladders::varlen_ladders_test

// What the rungs of attention_decode change, in counters.
namespace ultra::ladders::attention_decode_ladder_test {

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

TEST_F(AttentionDecodeLadder, PartialSumsHaveNoBankConflicts) {
  for (const std::string& rung : emulated_rungs()) {
    const simt::Site store = counters_of(rung).total(AccessKind::kSharedStore);
    EXPECT_LE(store.wavefronts, store.ideal_wavefronts + store.requests / 2) << rung;
  }
}

}  // namespace ultra::ladders::attention_decode_ladder_test
