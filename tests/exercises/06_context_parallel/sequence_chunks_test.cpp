// Contract of exercise 06.2: which tokens a rank has, and that splitting and joining lose none.
#include "chapters/06_context_parallel/sequence_chunks.hpp"

#include "chapters/06_context_parallel/context_parallel.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::context_parallel {
namespace {

using ultra::test::all_equal;

constexpr const char* kPairs =
    "Hint: each rank has an early chunk and the late one that makes up for it, in this order: "
    "count the pairs of tokens that each rank's chunks see, and they are as many on all.";
constexpr const char* kOwnMemory =
    "Hint: each part is a tensor of its own, not a view of the whole.";
constexpr const char* kPositions =
    "Hint: positions count in the whole sequence, on every rank: rotary attention and the mask go "
    "by them.";
constexpr const char* kPadded =
    "Hint: positions reach up to the sequence's length with its padding.";
constexpr const char* kLoss =
    "Hint: every token's loss is divided by the tokens of the global batch, on every rank: a mean "
    "per rank would weigh the tokens of a rank with padding more than those of the others. The "
    "plan does so already: leave its micro-batches as they are.";
constexpr const char* kOrder =
    "Hint: the whole has the chunks of all these ranks in the order of their positions.";
constexpr const char* kRows =
    "Hint: a chunk's row in the whole is the number of tokens of all chunks before it: other "
    "ranks' chunks may be missing.";

/// One replica, which takes all sequences in one micro-batch.
train::PlanRules whole_batch() {
  return {.share =
              [](std::size_t global_batch, const Communicator&) {
                return Range{0, global_batch};
              },
          .cut =
              [](const train::LocalBatch& share, std::size_t) {
                return std::vector<train::MicroBatch>{
                    {.sequences = share.sequences, .normalizer = share.global_tokens}};
              },
          .schedule = ultra::test::one_after_the_other};
}

class SequenceChunks : public ultra::test::RandomTest {};

TEST_F(SequenceChunks, ZigzagPairsEarlyWithLate) {
  const ContextLayout contiguous{.cp = 3, .sequence = SequenceLayout::kContiguous, .seq_len = 11};
  EXPECT_EQ(chunks_of(contiguous, 1), (TokenChunks{{4, 8}}));
  EXPECT_EQ(chunks_of(contiguous, 2), (TokenChunks{{8, 12}}));
  const ContextLayout layout{.cp = 4, .sequence = SequenceLayout::kZigzag, .seq_len = 24};
  EXPECT_EQ(chunks_of(layout, 0), (TokenChunks{{0, 3}, {21, 24}})) << kPairs;
  EXPECT_EQ(chunks_of(layout, 1), (TokenChunks{{3, 6}, {18, 21}})) << kPairs;
  EXPECT_EQ(chunks_of(layout, 3), (TokenChunks{{9, 12}, {12, 15}})) << kPairs;
}

TEST_F(SequenceChunks, EveryTokenIsOnOneRankAndAllWorkAlike) {
  for (int cp = 1; cp <= 8; ++cp) {
    const ContextLayout layout{.cp = cp, .seq_len = random.between(16, 99)};
    std::vector<int> owners(layout.padded_len(), 0);
    std::vector<std::size_t> work;
    for (int rank = 0; rank < cp; ++rank) {
      work.push_back(0);
      for (const Range& chunk : chunks_of(layout, rank)) {
        for (std::size_t token = chunk.begin; token < chunk.end; ++token) {
          ASSERT_LT(token, owners.size());
          ++owners[token];
          work.back() += token + 1;  // keys that it sees
        }
      }
    }
    EXPECT_EQ(std::ranges::count(owners, 1), static_cast<std::ptrdiff_t>(owners.size())) << kPairs;
    EXPECT_EQ(std::ranges::max(work), std::ranges::min(work)) << kPairs;
  }
}

TEST_F(SequenceChunks, TokensKeepTheirPositionsAndTheirPartOfTheLoss) {
  for (const auto sequence : {SequenceLayout::kContiguous, SequenceLayout::kZigzag}) {
    const std::size_t seq_len = 6 * random.between(1, 6) + random.between(1, 5);  // and padding
    const ContextLayout layout{.cp = 3, .sequence = sequence, .seq_len = seq_len};
    train::TrainOptions options = ultra::test::short_run();
    options.model.max_seq_len = layout.seq_len;
    run_ranks(3, [&](Communicator& world) {
      train::Plan plan = train::make_plan(options, world, MeshShape({context_parallel::axis_of(3)}),
                                          whole_batch());
      const std::vector<train::MicroBatch> before = plan.micro_batches;
      plan.tokens.positions = {7};  // of another layout
      deal_out(plan, layout, world.rank());
      std::vector<std::int32_t> expected;
      for (const Range& chunk : chunks_of(layout, world.rank())) {
        for (std::size_t token = chunk.begin; token < chunk.end; ++token) {
          expected.push_back(static_cast<std::int32_t>(token));
        }
      }
      EXPECT_EQ(plan.tokens.positions, expected) << kPositions;
      EXPECT_EQ(plan.tokens.padded_len, layout.padded_len()) << kPadded;
      EXPECT_EQ(plan.micro_batches.size(), before.size()) << kLoss;
      for (std::size_t i = 0; i < std::min(before.size(), plan.micro_batches.size()); ++i) {
        EXPECT_EQ(plan.micro_batches[i].normalizer, before[i].normalizer) << kLoss;
        EXPECT_EQ(plan.micro_batches[i].weight, before[i].weight) << kLoss;
      }
    });
  }
}

TEST_F(SequenceChunks, JoinUndoesSplit) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (int cp = 1; cp <= 5; ++cp) {
      const ContextLayout layout{
          .cp = cp,
          .sequence = random.pick({SequenceLayout::kContiguous, SequenceLayout::kZigzag}),
          .seq_len = random.between(10, 40)};
      std::vector<TokenChunks> chunks;
      for (int rank = 0; rank < cp; ++rank) chunks.push_back(chunks_of(layout, rank));
      const Tensor whole = random.tensor(device, {3, layout.padded_len(), 2, 2}, dtype);
      const std::vector<Tensor> parts = split_sequence(whole, chunks);
      ASSERT_EQ(parts.size(), chunks.size());
      for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        EXPECT_TRUE(parts[rank].is_contiguous()) << kOwnMemory;
        std::size_t row = 0;
        for (const Range& chunk : chunks[rank]) {
          EXPECT_TRUE(all_equal(parts[rank].slice(1, {row, row + chunk.size()}).contiguous(),
                                whole.slice(1, chunk).contiguous()))
              << "rank " << rank << ": " << kOrder;
          row += chunk.size();
        }
      }
      EXPECT_TRUE(all_equal(join_sequence(parts, chunks), whole)) << kOrder;
    }
  }
}

TEST_F(SequenceChunks, OfSomeRanksOnly) {
  // Two neighbours of four, in zig-zag: chunks 2, 3 and 4, 5 of 8.
  const std::vector<TokenChunks> chunks = {{{4, 6}, {10, 12}}, {{6, 8}, {8, 10}}};
  const Tensor whole = random.tensor(device, {2, 8, 1, 3}, DType::kF32);
  const auto rows = [&](Range range) { return whole.slice(1, range).contiguous(); };
  std::vector<Tensor> parts;
  EXPECT_NO_THROW(parts = split_sequence(whole, chunks)) << kRows;
  if (parts.size() != 2) {
    FAIL() << parts.size() << " parts for 2 ranks\n" << kRows;
  }
  EXPECT_TRUE(all_equal(parts[0].slice(1, {2, 4}).contiguous(), rows({6, 8}))) << kRows;
  EXPECT_TRUE(all_equal(parts[1], rows({2, 6}))) << kRows;
  const std::vector<Tensor> right = {parts[0].clone(), rows({2, 6})};
  right[0].slice(1, {0, 2}).copy_from(whole.slice(1, {0, 2}));
  right[0].slice(1, {2, 4}).copy_from(whole.slice(1, {6, 8}));
  Tensor joined;
  EXPECT_NO_THROW(joined = join_sequence(right, chunks)) << kRows;
  EXPECT_TRUE(joined.defined() && all_equal(joined, whole)) << kRows;
}

}  // namespace
}  // namespace ultra::context_parallel
