#include "chapters/06_context_parallel/context_parallel.hpp"

#include <variant>

#include "chapters/06_context_parallel/context_layout.hpp"
#include "chapters/06_context_parallel/sequence_chunks.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::context_parallel {
namespace {

ContextParallelOptions parse(const std::string& line) {
  return ultra::test::options_of<ContextParallelOptions>(line);
}

TEST(ContextParallelOptions, ReadTheirFlags) {
  const ContextParallelOptions options =
      parse("--cp 8 --cp-layout contiguous --cp-method ulysses+ring --cp-ulysses 4");
  EXPECT_NO_THROW(options.validate());
  EXPECT_EQ(options.layout, SequenceLayout::kContiguous);
  EXPECT_EQ(options.choice(),
            (MethodChoice{.method = ContextMethod::kUlyssesRing, .cp = 8, .ulysses = 4}));
  EXPECT_EQ(options.choice().ring(), 2);
  EXPECT_EQ(parse("--cp 4 --cp-method ulysses").choice().ulysses, 4);
  EXPECT_EQ(parse("--cp 4").choice().ulysses, 1);
}

TEST(ContextParallelOptions, RefusalsSayWhatDoesNotFit) {
  ultra::test::expect_refused<ContextParallelOptions>(
      {{"--cp 0", {"--cp is 0"}},
       {"--cp 4097", {"from 1 to 4096"}},
       {"--cp-layout zigzag", {"--cp-layout has no meaning without --cp"}},
       {"--cp-method ring", {"--cp-method has no meaning without --cp"}},
       {"--cp-ulysses 2", {"--cp-ulysses has no meaning without --cp"}},
       {"--cp 4 --cp-ulysses 2", {"--cp-method ulysses+ring only", "it is ring"}},
       {"--cp 4 --cp-method ulysses+ring", {"needs --cp-ulysses U"}},
       {"--cp 4 --cp-method ulysses+ring --cp-ulysses 3", {"must divide --cp", "4 % 3 = 1"}},
       {"--cp 4 --cp-method ulysses+ring --cp-ulysses 0", {"--cp-ulysses is 0"}}});
}

TEST(ContextParallelOptions, HeadsMustDivideAmongRanksThatExchangeThem) {
  const auto expect_8_and_4 = [](const std::string& line, std::size_t tp) {
    expect_heads(parse(line).choice(), 8, 4, tp);
  };
  const auto message = [&](const std::string& line, std::size_t tp) {
    return ultra::test::message_of<ConfigError>([&] { expect_8_and_4(line, tp); });
  };
  EXPECT_NO_THROW(expect_8_and_4("--cp 4 --cp-method ulysses", 1));
  EXPECT_NO_THROW(expect_8_and_4("--cp 3", 1));
  const std::string kv = message("--cp 8 --cp-method ulysses", 1);
  EXPECT_NE(kv.find("must divide --kv-heads: 4 % 8 = 4"), std::string::npos) << kv;
  EXPECT_NE(kv.find("--cp-method ring or all-gather"), std::string::npos) << kv;
  const std::string heads = message("--cp 3 --cp-method ulysses", 1);
  EXPECT_NE(heads.find("must divide --heads: 8 % 3 = 2"), std::string::npos) << heads;
  const std::string tensor = message("--cp 4 --cp-method ulysses", 2);
  EXPECT_NE(tensor.find("--kv-heads: 4 / 2 heads per --tp rank, and 4 % (2 * 4) = 4"),
            std::string::npos)
      << tensor;
}

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
