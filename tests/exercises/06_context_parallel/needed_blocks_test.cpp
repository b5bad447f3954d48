// Contract of exercise 06.5: every block in which somebody sees something, and no other.
#include "chapters/06_context_parallel/needed_blocks.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::context_parallel {
namespace {

constexpr const char* kMissing =
    "Hint: a query of this block sees a key of it, but it is left out.";
constexpr const char* kNeedless =
    "Hint: no real query of this block sees a key of it: computing it costs as much as any other.";
constexpr const char* kUnmasked =
    "Hint: some real query of this block must not see some key, but no mask says so.";
constexpr const char* kMasked =
    "Hint: every real query of this block sees every key: no mask is needed.";
constexpr const char* kOrder = "Hint: blocks are listed by query chunk, then by key chunk.";

/// Token by token.
struct Seen {
  bool any = false;
  bool all = true;

  Seen(Range queries, Range keys, const SequenceMask& mask) {
    for (std::size_t q = queries.begin; q < std::min(queries.end, mask.seq_len); ++q) {
      for (std::size_t k = keys.begin; k < keys.end; ++k) {
        const bool sees = k <= q && k >= mask.begin_of(q);
        any = any || sees;
        all = all && sees;
      }
    }
  }
};

class NeededBlocks : public ultra::test::RandomTest {
 protected:
  static std::string str(Range chunk) { return fmt::format("[{}, {})", chunk.begin, chunk.end); }

  static void expect_right(const TokenChunks& queries, const TokenChunks& keys,
                           const SequenceMask& mask) {
    const std::vector<AttentionBlock> blocks = needed_blocks(queries, keys, mask);
    std::size_t next = 0;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      for (std::size_t j = 0; j < keys.size(); ++j) {
        const Seen seen(queries[i], keys[j], mask);
        const std::string where =
            fmt::format("queries {}, keys {}: ", str(queries[i]), str(keys[j]));
        const bool is_there =
            next < blocks.size() && blocks[next].query_chunk == i && blocks[next].key_chunk == j;
        ASSERT_EQ(is_there, seen.any) << where << (seen.any ? kMissing : kNeedless);
        if (!seen.any) continue;
        EXPECT_EQ(blocks[next].is_masked, !seen.all) << where << (seen.all ? kMasked : kUnmasked);
        ++next;
      }
    }
    EXPECT_EQ(next, blocks.size());
  }

  TokenChunks cut(std::size_t len, std::size_t chunk) {
    TokenChunks chunks;
    for (std::size_t begin = 0; begin < len; begin += chunk) {
      if (random.between(0, 3) > 0) chunks.push_back({begin, begin + chunk});
    }
    return chunks;
  }
};

TEST_F(NeededBlocks, OfACausalMaskAreTheLowerTriangle) {
  const TokenChunks chunks = {{0, 4}, {4, 8}, {8, 12}};
  const std::vector<AttentionBlock> expected = {{0, 0, true},  {1, 0, false}, {1, 1, true},
                                                {2, 0, false}, {2, 1, false}, {2, 2, true}};
  const std::vector<AttentionBlock> blocks = needed_blocks(chunks, chunks, {.seq_len = 12});
  EXPECT_TRUE(blocks == expected || !std::ranges::is_permutation(blocks, expected)) << kOrder;
  expect_right(chunks, chunks, {.seq_len = 12});
}

TEST_F(NeededBlocks, OfRandomChunksPaddingDocumentsAndWindows) {
  for (int round = 0; round < 200; ++round) {
    const std::size_t chunk = random.between(1, 5);
    const std::size_t len = chunk * random.between(1, 8);
    const std::size_t seq_len = random.between(1, len);
    const std::size_t mean = random.between(1, 8);
    std::vector<std::int32_t> begins(len, 0);
    for (std::size_t i = 1; i < len; ++i) {
      const bool is_new = i == seq_len || random.between(1, mean) == 1;
      begins[i] = is_new && i <= seq_len ? static_cast<std::int32_t>(i) : begins[i - 1];
    }
    SCOPED_TRACE(fmt::format("{} real tokens of {}, chunks of {}", seq_len, len, chunk));
    const std::size_t window = random.between(0, len);  // 0: none
    for (const SequenceMask& mask :
         {SequenceMask{.seq_len = seq_len},
          SequenceMask{.seq_len = seq_len, .document_begins = begins},
          SequenceMask{.seq_len = seq_len, .window = window},
          SequenceMask{.seq_len = seq_len, .document_begins = begins, .window = window}}) {
      expect_right(cut(len, chunk), cut(len, chunk), mask);
      expect_right(cut(len, chunk), {{0, len}}, mask);
    }
  }
}

}  // namespace
}  // namespace ultra::context_parallel
