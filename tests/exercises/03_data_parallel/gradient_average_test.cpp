// Contract of exercise 03.1: shares that cover every batch, and averages that are those of one rank.
#include "chapters/03_data_parallel/gradient_average.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "chapters/02_collectives/replicated_training.hpp"
#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"

namespace ultra::data_parallel {
namespace {

using test::Gradients;
using test::Replica;
using ultra::test::message_of;

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

class GradientAverage : public ultra::test::RandomTest {
 protected:
  /// Calls check(shares) for batches of every remainder.
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
};

TEST_F(GradientAverage, SharesFollowEachOtherAndCoverTheBatch) {
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

TEST_F(GradientAverage, TheFirstSharesAreAtMostOneSequenceLarger) {
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

TEST_F(GradientAverage, ABatchThatIsTooSmallIsRejectedWithItsNumbers) {
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

TEST_F(GradientAverage, LossesAreDividedByTheGlobalTokensPerReplica) {
  const data::Dataset text = test::random_text(random);
  for (int replicas = 1; replicas <= 5; ++replicas) {
    for (const std::size_t rest : {std::size_t{0}, as_size(replicas) - 1}) {
      const std::size_t batch = as_size(replicas) * random.between(1, 3) + rest;
      const data::Sampler sampler(text, random.between(1, 9), batch, seed);
      const auto tokens = static_cast<double>(sampler.global_tokens());
      SCOPED_TRACE(fmt::format("{} sequences of {} tokens, {} replicas", batch, sampler.seq_len(),
                               replicas));
      run_ranks(replicas, [&](Communicator& dp) {
        const double found = loss_normalizer(sampler, dp);
        std::string hint;
        if (replicas > 1 && found == tokens) {
          hint = "\nHint: the average over N replicas divides by N once more.";
        } else if (found != tokens / replicas) {
          hint =
              "\nHint: a replica with a larger share has more tokens, and each of them must count "
              "as much as any other: all replicas divide by the same number.";
        }
        EXPECT_DOUBLE_EQ(found, tokens / replicas) << hint;
      });
    }
  }
}

TEST_F(GradientAverage, EveryGradientIsTheMeanOverTheReplicas) {
  const nn::ModelConfig config = test::random_config(random);
  for (int replicas = 1; replicas <= 5; ++replicas) {
    run_ranks(replicas, [&](Communicator& dp) {
      Replica replica(config, DType::kF64, 1);
      const std::vector<nn::Parameter*>& parameters = replica.model.parameters();
      const auto gradient = [](std::size_t p, double rank) {
        return (rank + 1) * static_cast<double>(p + 1);
      };
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        test::make_gradient(*parameters[p], gradient(p, dp.rank()));
      }
      average_gradients(replica.model, dp);
      const std::size_t sent = dp.stats()[OpKind::kAllReduce].operations;
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        const double mean = gradient(p, 0.5 * (replicas - 1));
        const double found = parameters[p]->grad().to_vector().back();
        std::string hint;
        if (found == mean * replicas) {
          hint = "Hint: this is the sum, N times too large: reduce with ReduceOp::kAverage.";
        } else if (found == gradient(p, dp.rank())) {
          hint =
              "Hint: this gradient is still this rank's own: every parameter is averaged, norm "
              "weights too.";
        }
        EXPECT_EQ(found, mean) << parameters[p]->name() << "\n" << hint;
        if (found != mean) break;
      }
      EXPECT_EQ(sent, parameters.size()) << "all-reduces";
    });
  }
}

TEST_F(GradientAverage, ReplicasWithUnequalSharesTrainLikeOneRank) {
  const data::Dataset text = test::random_text(random);
  for (int replicas = 1; replicas <= 5; ++replicas) {
    const nn::ModelConfig config = test::random_config(random);
    const std::size_t rest = replicas == 1 ? 0 : random.between(1, as_size(replicas) - 1);
    const std::size_t batch = as_size(replicas) * random.between(1, 2) + rest;
    const data::Sampler sampler(text, config.max_seq_len, batch, seed);
    const Gradients expected = test::on_one_device(config, DType::kF64, seed, sampler);
    SCOPED_TRACE(fmt::format("{} sequences on {} replicas", batch, replicas));
    run_ranks(replicas, [&](Communicator& dp) {
      Replica replica(config, DType::kF64, seed);
      const double own = test::one_pass(replica.model, sampler, share_of_batch(batch, dp),
                                        loss_normalizer(sampler, dp));
      average_gradients(replica.model, dp);
      const double loss = collectives::average(own, replica.device, dp);
      EXPECT_NEAR(loss, expected.loss, 1e-10 * expected.loss);
      test::expect_gradients(replica.model, expected, 1e-10, "");
    });
  }
}

}  // namespace
}  // namespace ultra::data_parallel
