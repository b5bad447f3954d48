#include "chapters/06_context_parallel/context_layout.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chapters/06_context_parallel/sequence_chunks.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::context_parallel {
namespace {

TEST(ContextLayoutTest, ChunksOfTheSameLengthHoldTheSequence) {
  for (const auto sequence : {SequenceLayout::kContiguous, SequenceLayout::kZigzag}) {
    for (int cp = 1; cp <= 5; ++cp) {
      for (std::size_t seq_len = 10; seq_len < 40; ++seq_len) {
        for (const std::size_t multiple : {1U, 2U, 3U, 4U}) {
          const ContextLayout layout{
              .cp = cp, .sequence = sequence, .seq_len = seq_len, .multiple_of = multiple};
          EXPECT_EQ(layout.local_seq_len() % multiple, 0U);
          EXPECT_GE(layout.padded_len(), seq_len);
          EXPECT_LT(layout.padded_len(),
                    seq_len + layout.ranks() * layout.chunks_per_rank() * multiple);
        }
      }
    }
  }
}

TEST(ContextLayoutTest, WithoutPaddingWhereTheSequenceDivides) {
  const ContextLayout layout{.cp = 4, .seq_len = 64};
  EXPECT_EQ(layout.chunk_len(), 8U);
  EXPECT_EQ(layout.local_seq_len(), 16U);
  EXPECT_EQ(layout.padded_len(), 64U);
}

TEST(ContextLayoutTest, JoinedChunksStandInOrderAndNeighboursAreOne) {
  const std::vector<TokenChunks> chunks = {{{0, 2}, {14, 16}}, {{2, 4}, {12, 14}}};
  EXPECT_EQ(joined_chunks(chunks), (TokenChunks{{0, 4}, {12, 16}}));
  EXPECT_EQ(token_count(chunks[0]), 4U);
}

TEST(ContextLayoutTest, ASequenceOfFewerTokensThanChunksIsRefused) {
  const auto message = [](const ContextLayout& layout) {
    return ultra::test::message_of<ConfigError>([&] { layout.validate(); });
  };
  const std::string zigzag = message({.cp = 4, .seq_len = 7});
  EXPECT_NE(zigzag.find("--seq 7 is less than the 8 chunks into which --cp 4 cuts it"),
            std::string::npos)
      << zigzag;
  EXPECT_NO_THROW(
      (ContextLayout{.cp = 4, .sequence = SequenceLayout::kContiguous, .seq_len = 7}.validate()));
  EXPECT_NO_THROW((ContextLayout{.cp = 1, .seq_len = 1}.validate()));
}

}  // namespace
}  // namespace ultra::context_parallel
