// The chapter's promise, through whole training runs: N replicas compute what one rank computes,
// whatever the shares, the micro-batches and the way in which gradients are averaged.

#include "chapters/03_data_parallel/data_parallel_training.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/chapters/02_collectives/run_comparison.hpp"
#include "tests/chapters/03_data_parallel/sync_ways.hpp"
#include "tests/support/random.hpp"
#include "tests/support/random_run.hpp"

namespace ultra::data_parallel {
namespace {

using collectives::test::expect_near_losses;
using collectives::test::expect_near_weights;
using collectives::test::losses_and_norms;
using collectives::test::RankRun;
using collectives::test::run_alone;
using collectives::test::run_with;
using test::SyncWay;
using ::testing::HasSubstr;
using train::test::expect_same_on_all;
using train::test::quietly;

/// A run on replicas whose micro-batch need not divide anything.
struct Case {
  int replicas = 1;
  std::size_t micro_batch = 1;  ///< of the replicas; options.micro_batch is for one rank
  train::TrainOptions options;

  [[nodiscard]] std::string str() const {
    const nn::ModelConfig& m = options.model;
    return fmt::format("{} replicas, L {} h {} a {} kv {} f {} s {}, micro-batch {} of {}, clip {}",
                       replicas, m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads,
                       m.ffn_hidden_size, m.max_seq_len, micro_batch, options.global_batch,
                       options.clip_norm);
  }
};

RankRun run_on(const Communicator& dp, const Case& c, const MakeGradientSync& make_sync) {
  return run_with(data_parallel_forward_backward(dp, c.micro_batch, make_sync), dp, c.options);
}

void expect_same_bits(const RankRun& actual, const RankRun& expected) {
  EXPECT_EQ(losses_and_norms(actual.result), losses_and_norms(expected.result));
  EXPECT_EQ(actual.weights, expected.weights);
}

class DataParallel : public ultra::test::RandomTest {
 protected:
  Case draw(int replicas, DType dtype) {
    return {.replicas = replicas,
            .micro_batch = random.between(1, 3),
            .options = ultra::test::random_run(random, seed, replicas, dtype)};
  }

  /// Seven sequences on three replicas in pairs: shares of 3, 2 and 2; 2, 1 and 1 micro-batches.
  Case uneven(DType dtype) {
    Case c = draw(3, dtype);
    c.micro_batch = 2;
    c.options.global_batch = 7;
    return c;
  }

  static void on_ranks(const Case& c, const std::function<void(Communicator&)>& fn,
                       const RankOptions& options = test::in_rank_order()) {
    SCOPED_TRACE(c.str());
    quietly([&] { run_ranks(c.replicas, fn, options); });
    if (HasFailure()) std::printf("%s\n", c.str().c_str());
  }
};

TEST_F(DataParallel, EqualsOneRankInF64) {
  for (int replicas = 1; replicas <= 5; ++replicas) {
    const Case c = replicas == 3 ? uneven(DType::kF64) : draw(replicas, DType::kF64);
    for (const RankOptions& rank_options : {test::in_rank_order(), RankOptions()}) {
      on_ranks(
          c,
          [&](Communicator& dp) {
            const RankRun one = run_alone(dp, c.options);
            const std::vector<SyncWay> ways = test::all_ways(dp);
            for (const SyncWay& way : {ways.front(), ways[3], ways[5]}) {
              const RankRun run = run_on(dp, c, way.make);
              SCOPED_TRACE(way.name);
              expect_near_losses(run, one, 1e-10);
              expect_near_weights(run, one, 1e-10);
              expect_same_on_all(dp, losses_and_norms(run.result));
              for (const std::vector<double>& weight : run.weights) expect_same_on_all(dp, weight);
            }
          },
          rank_options);
    }
  }
}

TEST_F(DataParallel, EqualsOneRankInF32) {
  for (const int replicas : {2, 3, 4}) {
    Case c = replicas == 3 ? uneven(DType::kF32) : draw(replicas, DType::kF32);
    c.options.steps = 20;
    on_ranks(c, [&](Communicator& dp) {
      const RankRun run = run_on(dp, c, [&](nn::Model& model) {
        return sync_in_buckets(model, 1000, Flush::kWhenReady, all_reduce_exchange(dp));
      });
      expect_near_losses(run, run_alone(dp, c.options), 1e-5);
      expect_same_on_all(dp, losses_and_norms(run.result));
    });
  }
}

TEST_F(DataParallel, EveryWayIsTheSameRunBitForBit) {
  for (int replicas = 1; replicas <= 5; ++replicas) {
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    const Case c = replicas == 3 ? uneven(dtype) : draw(replicas, dtype);
    on_ranks(c, [&](Communicator& dp) {
      const std::vector<SyncWay> ways = test::all_ways(dp);
      const RankRun expected = run_on(dp, c, ways.front().make);
      for (const SyncWay& way : ways) {
        const RankRun run = run_on(dp, c, way.make);
        SCOPED_TRACE(way.name);
        expect_same_bits(run, expected);
      }
    });
  }
}

TEST_F(DataParallel, SendsGradientsAndOneLossPerStep) {
  for (int replicas = 1; replicas <= 5; ++replicas) {
    const Case c = draw(replicas, random.pick({DType::kF32, DType::kF64}));
    on_ranks(c, [&](Communicator& dp) {
      const train::TrainResult result =
          run_on(dp, c, [&](nn::Model& model) {
            return sync_in_buckets(model, test::kEverything, Flush::kWhenReady,
                                   all_reduce_exchange(dp));
          }).result;
      std::size_t sent = 0;
      for (const train::RankSummary& rank : result.ranks) {
        EXPECT_EQ(rank.communication[OpKind::kAllReduce].operations, 2 * c.options.steps)
            << "a bucket and a loss in each step";
        EXPECT_EQ(rank.communication.sent_bytes(),
                  rank.communication[OpKind::kAllReduce].sent_bytes);
        sent += rank.communication.sent_bytes();
      }
      const std::size_t gradient_bytes = result.parameters * size_of(c.options.dtype);
      const auto others = static_cast<std::size_t>(c.replicas) - 1;
      EXPECT_EQ(sent, c.options.steps * 2 * others * (gradient_bytes + sizeof(double)));
    });
  }
}

TEST_F(DataParallel, HoldsTheGradientsOnce) {
  Case c = draw(2, DType::kF32);
  c.options.global_batch = 4;
  c.micro_batch = c.options.micro_batch = 2;
  on_ranks(c, [&](Communicator& dp) {
    const train::TrainResult one = run_alone(dp, c.options).result;
    for (const SyncWay& way : test::all_ways(dp)) {
      const train::TrainResult run = run_on(dp, c, way.make).result;
      for (const train::RankSummary& rank : run.ranks) {
        EXPECT_EQ(rank.memory.peak(MemoryCategory::kGradients).bytes, 4 * run.parameters);
        for (const MemoryCategory category :
             {MemoryCategory::kParameters, MemoryCategory::kOptimizer,
              MemoryCategory::kActivations}) {
          EXPECT_EQ(rank.memory.peak(category).bytes, one.ranks[0].memory.peak(category).bytes)
              << way.name << ", " << to_string(category) << ": replication saves no memory";
        }
      }
    }
  });
}

TEST_F(DataParallel, OneFunctionServesModelAfterModel) {
  const Case c = draw(2, DType::kF64);
  on_ranks(c, [&](Communicator& dp) {
    int made = 0;
    const auto forward_backward =
        data_parallel_forward_backward(dp, c.micro_batch, [&](nn::Model& model) {
          ++made;
          return sync_in_buckets(model, 500, Flush::kWhenReady, all_reduce_exchange(dp));
        });
    const RankRun first = run_with(forward_backward, dp, c.options);
    const RankRun second = run_with(forward_backward, dp, c.options);
    const auto copy = forward_backward;
    expect_same_bits(second, first);
    expect_same_bits(run_with(copy, dp, c.options), first);
    EXPECT_EQ(made, 3) << "one for each model, not for each step";
  });
}

TEST_F(DataParallel, ABatchSmallerThanTheReplicasIsAnError) {
  Case c = draw(4, DType::kF32);
  c.options.global_batch = 3;
  const auto run = [&] {
    on_ranks(c, [&](Communicator& dp) {
      const std::string message = ultra::test::message_of<ConfigError>([&] {
        static_cast<void>(
            run_on(dp, c, [&](nn::Model& model) { return sync_after_backward(model, dp); }));
      });
      EXPECT_THAT(message, HasSubstr("a global batch of 3"));
    });
  };
  run();
}

}  // namespace
}  // namespace ultra::data_parallel
