// Contract of exercise 03.1: shares that cover every batch, cut so that all replicas make as many
// passes.
#include "chapters/03_data_parallel/batch_shares.hpp"

#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using train::MicroBatch;

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// What each of the replicas takes.
std::vector<Range> shares_of(std::size_t global_batch, int replicas) {
  std::vector<Range> shares(as_size(replicas));
  run_ranks(replicas, [&](Communicator& dp) {
    shares[as_size(dp.rank())] = share_of_batch(global_batch, dp);
  });
  return shares;
}

std::string text(const std::vector<Range>& shares) {
  std::string all;
  for (const Range& share : shares) all += fmt::format(" [{}, {})", share.begin, share.end);
  return all;
}

std::string text(const std::vector<MicroBatch>& micro_batches) {
  std::string all;
  for (const MicroBatch& m : micro_batches) {
    all += fmt::format(" [{}, {}) of weight {}", m.sequences.begin, m.sequences.end, m.weight);
  }
  return all;
}

void expect_cut(const train::LocalBatch& share, std::size_t micro_batch) {
  const std::vector<MicroBatch> cut = cut_share(share, micro_batch);
  SCOPED_TRACE(fmt::format("sequences [{}, {}) in micro-batches of {}, the largest share has {}:{}",
                           share.sequences.begin, share.sequences.end, micro_batch, share.largest,
                           text(cut)));
  EXPECT_EQ(cut.size(), ceil_div(share.largest, micro_batch))
      << "Hint: every replica makes as many passes as the largest share needs, the last of which "
         "may be shorter. One that stops earlier leaves layers that communicate waiting.";
  const std::size_t size = share.sequences.size();
  std::size_t end = 0;
  for (const MicroBatch& m : cut) {
    EXPECT_TRUE(m.sequences.begin < m.sequences.end && m.sequences.end <= size)
        << "Hint: behind the end of the share stand another replica's sequences, or none. Let the "
           "share's last sequence pass once more.";
    EXPECT_EQ(m.normalizer, share.global_tokens)
        << "Hint: each token must count as much as any other, in whatever share and micro-batch it "
           "stands: all of them are divided by the same number.";
    if (end == size) {
      EXPECT_EQ(m.weight, 0.0)
          << "Hint: these sequences have counted already; what passes once more weighs 0.";
      continue;
    }
    EXPECT_EQ(m.weight, 1.0) << "Hint: a sequence that passes for the first time counts, also in a "
                                "last micro-batch that is shorter.";
    EXPECT_EQ(m.sequences.begin, end)
        << "Hint: sequences are counted from the first of this replica's share, not from that of "
           "the batch; each micro-batch begins where the one before ends.";
    EXPECT_EQ(m.sequences.end, std::min(end + micro_batch, size))
        << "Hint: the last micro-batch is shorter when the size does not divide the share.";
    end = m.sequences.end;
  }
  EXPECT_EQ(end, size) << "Hint: the last micro-batch is shorter when the size does not divide the "
                          "share. Its sequences count, too.";
}

class BatchShares : public ultra::test::RandomTest {};

TEST_F(BatchShares, SharesCoverTheBatchAndTheFirstAreAtMostOneSequenceLarger) {
  for (int replicas = 1; replicas <= 6; ++replicas) {
    const std::size_t least = as_size(replicas);
    for (std::size_t batch = least; batch <= 3 * least && !HasFailure(); ++batch) {
      const std::vector<Range> shares = shares_of(batch, replicas);
      SCOPED_TRACE(fmt::format("{} sequences for {} replicas:{}", batch, replicas, text(shares)));
      std::size_t end = 0;
      for (std::size_t r = 0; r < shares.size(); ++r) {
        EXPECT_EQ(shares[r].begin, end)
            << "Hint: each share begins where the one of the rank before ends.";
        EXPECT_GE(shares[r == 0 ? 0 : r - 1].size(), shares[r].size())
            << "Hint: the larger shares come first.";
        end = shares[r].end;
      }
      EXPECT_EQ(end, batch) << "Hint: B / N rounds down; the B % N sequences that are left over "
                               "belong to somebody too.";
      EXPECT_LE(shares.front().size(), shares.back().size() + 1)
          << "Hint: shares differ by at most one: the slowest replica sets the pace of all.";
    }
  }
}

TEST_F(BatchShares, ABatchThatIsTooSmallIsRejectedWithItsNumbers) {
  run_ranks(4, [](Communicator& dp) {
    const std::string message =
        message_of<ConfigError>([&] { static_cast<void>(share_of_batch(3, dp)); });
    for (const char* number : {"3", "4"}) {
      EXPECT_NE(message.find(number), std::string::npos)
          << "the message names both numbers: '" << message
          << "'\nHint: throw ConfigError on every replica when there are fewer sequences than "
             "replicas.";
    }
  });
}

/// For shares in every place of a batch.
TEST_F(BatchShares, MicroBatchesThatCountCoverTheShareOnce) {
  for (std::size_t own = 1; own <= 7; ++own) {
    for (const std::size_t largest : {own, own + 1, 2 * own + 3}) {
      for (std::size_t micro_batch = 1; micro_batch <= 9 && !HasFailure(); ++micro_batch) {
        const std::size_t begin = random.between(0, 5);
        expect_cut({.sequences = {begin, begin + own},
                    .largest = largest,
                    .seq_len = 3,
                    .global_tokens = count_of(random.between(20, 200))},
                   micro_batch);
      }
    }
  }
}

TEST_F(BatchShares, EmptyMicroBatchesAreRejected) {
  const train::LocalBatch share{
      .sequences = {0, 3}, .largest = 3, .seq_len = 2, .global_tokens = 6};
  EXPECT_THROW(static_cast<void>(cut_share(share, 0)), ConfigError)
      << "Hint: a micro-batch of 0 sequences never gets to the end of the share.";
}

}  // namespace
}  // namespace ultra::data_parallel
