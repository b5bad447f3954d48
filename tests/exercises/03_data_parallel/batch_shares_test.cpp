// Contract of exercise 03.1: shares that cover every batch, cut so that all replicas make as many
// passes and add up to one rank.
#include "chapters/03_data_parallel/batch_shares.hpp"

#include "chapters/02_collectives/replicated_training.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using test::Gradients;
using test::Replica;
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

class BatchShares : public ultra::test::RandomTest {
 protected:
  /// Calls check(batch, shares) for batches of every remainder.
  template <class Check>
  void for_batches(const Check& check) {
    for (int replicas = 1; replicas <= 6; ++replicas) {
      const std::size_t least = as_size(replicas);
      for (std::size_t batch = least; batch <= 3 * least && !HasFailure(); ++batch) {
        SCOPED_TRACE(fmt::format("{} sequences for {} replicas", batch, replicas));
        check(batch, shares_of(batch, replicas));
      }
    }
  }

  /// Calls check(share, micro_batch, micro_batches) for shares in every place of a batch.
  template <class Check>
  void for_cuts(const Check& check) {
    for (std::size_t own = 1; own <= 7; ++own) {
      for (const std::size_t largest : {own, own + 1, 2 * own + 3}) {
        for (std::size_t micro_batch = 1; micro_batch <= 9 && !HasFailure(); ++micro_batch) {
          const std::size_t begin = random.between(0, 5);
          const train::LocalBatch share{.sequences = {begin, begin + own},
                                        .largest = largest,
                                        .seq_len = 3,
                                        .global_tokens = count_of(random.between(20, 200))};
          const std::vector<MicroBatch> cut = cut_share(share, micro_batch);
          SCOPED_TRACE(
              fmt::format("sequences [{}, {}) in micro-batches of {}, the largest share has {}:{}",
                          begin, begin + own, micro_batch, largest, text(cut)));
          check(share, micro_batch, cut);
        }
      }
    }
  }

  static double count_of(std::size_t count) { return static_cast<double>(count); }
};

TEST_F(BatchShares, SharesFollowEachOtherAndCoverTheBatch) {
  for_batches([](std::size_t batch, const std::vector<Range>& shares) {
    std::size_t end = 0;
    for (const Range& share : shares) {
      EXPECT_EQ(share.begin, end) << text(shares) << "\nHint: each share begins where the one of "
                                  << "the rank before ends.";
      end = share.end;
    }
    EXPECT_EQ(end, batch) << text(shares) << "\nHint: B / N rounds down; the B % N sequences that "
                          << "are left over belong to somebody too.";
  });
}

TEST_F(BatchShares, TheFirstSharesAreAtMostOneSequenceLarger) {
  for_batches([](std::size_t, const std::vector<Range>& shares) {
    for (std::size_t r = 1; r < shares.size(); ++r) {
      EXPECT_GE(shares[r - 1].size(), shares[r].size())
          << text(shares) << "\nHint: the larger shares come first.";
    }
    EXPECT_LE(shares.front().size(), shares.back().size() + 1)
        << text(shares)
        << "\nHint: shares differ by at most one: the slowest replica sets the pace of all.";
  });
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

TEST_F(BatchShares, EveryReplicaMakesAsManyPasses) {
  for_cuts([](const train::LocalBatch& share, std::size_t micro_batch,
              const std::vector<MicroBatch>& cut) {
    EXPECT_EQ(cut.size(), ceil_div(share.largest, micro_batch))
        << "Hint: every replica makes as many passes as the largest share needs, the last of which "
           "may be shorter. One that stops earlier leaves layers that communicate waiting.";
  });
}

TEST_F(BatchShares, MicroBatchesThatCountCoverTheShareOnce) {
  for_cuts(
      [](const train::LocalBatch& share, std::size_t micro_batch,
         const std::vector<MicroBatch>& cut) {
        std::size_t end = 0;
        for (const MicroBatch& m : cut) {
          if (end == share.sequences.size()) {
            EXPECT_EQ(m.weight, 0.0)
                << "Hint: these sequences have counted already; what passes once more weighs 0.";
            continue;
          }
          EXPECT_EQ(m.weight, 1.0) << "Hint: a sequence that passes for the first time counts, "
                                      "also in a last micro-batch that is shorter.";
          EXPECT_EQ(m.sequences.begin, end)
              << "Hint: sequences are counted from the first of this replica's share, not from "
                 "that of the batch; each micro-batch begins where the one before ends.";
          EXPECT_EQ(m.sequences.end, std::min(end + micro_batch, share.sequences.size()))
              << "Hint: the last micro-batch is shorter when the size does not divide the share.";
          end = m.sequences.end;
        }
        EXPECT_EQ(end, share.sequences.size())
            << "Hint: the last micro-batch is shorter when the size does not divide the share. Its "
               "sequences count, too.";
      });
}

TEST_F(BatchShares, WhatPassesOnceMoreIsOfTheShareToo) {
  for_cuts([](const train::LocalBatch& share, std::size_t, const std::vector<MicroBatch>& cut) {
    for (const MicroBatch& m : cut) {
      EXPECT_TRUE(m.sequences.begin < m.sequences.end && m.sequences.end <= share.sequences.size())
          << "Hint: behind the end of the share stand another replica's sequences, or none. Let "
             "the share's last sequence pass once more.";
    }
  });
}

TEST_F(BatchShares, TokenLossesAreDividedByTheTokensOfTheGlobalBatch) {
  for_cuts([](const train::LocalBatch& share, std::size_t, const std::vector<MicroBatch>& cut) {
    for (const MicroBatch& m : cut) {
      const std::string hint =
          m.normalizer < share.global_tokens
              ? "\nHint: each token must count as much as any other, in whatever share and "
                "micro-batch it stands: all of them are divided by the same number."
              : "";
      EXPECT_EQ(m.normalizer, share.global_tokens) << hint;
    }
  });
}

TEST_F(BatchShares, EmptyMicroBatchesAreRejected) {
  const train::LocalBatch share{
      .sequences = {0, 3}, .largest = 3, .seq_len = 2, .global_tokens = 6};
  EXPECT_THROW(static_cast<void>(cut_share(share, 0)), ConfigError)
      << "Hint: a micro-batch of 0 sequences never gets to the end of the share.";
}

TEST_F(BatchShares, ReplicasWithUnequalSharesTrainLikeOneRank) {
  const data::Dataset text = test::random_text(random);
  for (int replicas = 1; replicas <= 5; ++replicas) {
    const nn::ModelConfig config = test::random_config(random);
    // With one more sequence than replicas, only the first of them needs a second pass.
    for (const std::size_t rest : {std::size_t{1}, random.between(0, 2 * as_size(replicas))}) {
      const std::size_t batch = as_size(replicas) + rest;
      const std::size_t micro_batch = rest == 1 ? 1 : random.between(1, 3);
      const data::Sampler sampler(text, config.max_seq_len, batch, seed);
      const Gradients expected = test::on_one_device(config, DType::kF64, seed, sampler);
      const std::string what = fmt::format(
          "{} sequences on {} replicas, in micro-batches of {}\n"
          "Hint: losses and gradients of all replicas add up to those of one rank.",
          batch, replicas, micro_batch);
      run_ranks(replicas, [&](Communicator& dp) {
        Replica replica(config, DType::kF64, seed);
        double loss = test::make_passes(replica.model, sampler, dp, micro_batch);
        collectives::sum_gradients(replica.model.parameters(), dp);
        train::sum_over(dp, {&loss, 1});
        EXPECT_NEAR(loss, expected.loss, 1e-10 * expected.loss) << what;
        test::expect_gradients(replica.model, expected, 1e-10, what);
      });
    }
  }
}

}  // namespace
}  // namespace ultra::data_parallel
