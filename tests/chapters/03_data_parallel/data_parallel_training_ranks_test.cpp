// The chapter's promise, through whole training runs: N replicas compute what one rank computes,
// whatever the shares, the micro-batches and the way in which gradients are added up.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
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
using collectives::test::run_alone;
using test::SyncWay;
using ::testing::HasSubstr;
using train::test::expect_same_on_all;
using train::test::quietly;
using ultra::test::RankRun;

/// A run on replicas whose micro-batch need not divide anything.
struct Case {
  int replicas = 1;
  std::size_t micro_batch = 1;  ///< of the replicas; options.micro_batch is for one rank
  train::TrainOptions options;

  [[nodiscard]] std::string str() const {
    return fmt::format("{} replicas, {}", replicas, test::text_of(options, micro_batch));
  }
};

/// The chapter's training, but for the way in which gradients are added up.
train::Setup setup_of(const Communicator& dp, const Case& c, const SyncWay& way) {
  return test::setup_of(c.options, dp, c.micro_batch, "",
                        ultra::test::putting([way](train::Ingredients& ingredients) {
                          ingredients.exchange.claim("a test",
                                                     [way](const train::StatesScope& scope) {
                                                       return way.make(scope.parameters);
                                                     });
                        }));
}

RankRun run_on(const Communicator& dp, const Case& c, const SyncWay& way) {
  return ultra::test::run_of(setup_of(dp, c, way), dp);
}

void expect_same_bits(const RankRun& actual, const RankRun& expected) {
  EXPECT_EQ(losses_and_norms(actual.result), losses_and_norms(expected.result));
  EXPECT_EQ(actual.weights, expected.weights);
  EXPECT_EQ(actual.own, expected.own);
}

class DataParallelTraining : public ultra::test::RandomTest {
 protected:
  Case draw(int replicas, DType dtype) {
    return {.replicas = replicas,
            .micro_batch = random.between(1, 3),
            .options = ultra::test::random_run(random, seed, replicas, dtype)};
  }

  /// Seven sequences on three replicas in pairs: shares of 3, 2 and 2; 2 micro-batches each.
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

TEST_F(DataParallelTraining, EqualsOneRankInF64) {
  for (int replicas = 1; replicas <= 5; ++replicas) {
    const Case c = replicas == 3 ? uneven(DType::kF64) : draw(replicas, DType::kF64);
    for (const RankOptions& rank_options : {test::in_rank_order(), RankOptions()}) {
      on_ranks(
          c,
          [&](Communicator& dp) {
            const RankRun one = run_alone(dp, c.options);
            const std::vector<SyncWay> ways = test::all_ways(dp);
            for (const SyncWay& way : {ways.front(), ways[3], ways[5]}) {
              const RankRun run = run_on(dp, c, way);
              SCOPED_TRACE(way.name);
              expect_near_losses(run, one, 1e-10);
              expect_near_weights(run, one, 1e-10);
              expect_same_on_all(dp, losses_and_norms(run.result));
              for (const std::vector<double>& weight : run.own) expect_same_on_all(dp, weight);
            }
          },
          rank_options);
    }
  }
}

TEST_F(DataParallelTraining, EqualsOneRankInF32) {
  for (const int replicas : {2, 3, 4}) {
    Case c = replicas == 3 ? uneven(DType::kF32) : draw(replicas, DType::kF32);
    c.options.steps = 20;
    on_ranks(c, [&](Communicator& dp) {
      const RankRun run = run_on(dp, c, test::in_buckets(dp, 1000));
      expect_near_losses(run, run_alone(dp, c.options), 1e-5);
      expect_same_on_all(dp, losses_and_norms(run.result));
    });
  }
}

TEST_F(DataParallelTraining, EveryWayIsTheSameRunBitForBit) {
  for (int replicas = 1; replicas <= 5; ++replicas) {
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    const Case c = replicas == 3 ? uneven(dtype) : draw(replicas, dtype);
    on_ranks(c, [&](Communicator& dp) {
      const std::vector<SyncWay> ways = test::all_ways(dp);
      const RankRun expected = run_on(dp, c, ways.front());
      for (const SyncWay& way : ways) {
        const RankRun run = run_on(dp, c, way);
        SCOPED_TRACE(way.name);
        expect_same_bits(run, expected);
      }
      for (const auto& [flags, checks] :
           {std::pair("--overlap none --check-replicas 2", replicas > 1 ? c.options.steps / 2 : 0),
            std::pair("--overlap per-parameter", std::size_t{0}),
            std::pair("--overlap bucketed --bucket-mb 0.003", std::size_t{0})}) {
        const RankRun run =
            ultra::test::run_of(test::setup_of(c.options, dp, c.micro_batch, flags), dp);
        SCOPED_TRACE(flags);
        expect_same_bits(run, expected);
        EXPECT_EQ(run.result.ranks[0].communication[OpKind::kAllGather].operations, checks);
      }
    });
  }
}

TEST_F(DataParallelTraining, SendsGradientsAndALossWithNormsInEachStep) {
  for (int replicas = 1; replicas <= 5; ++replicas) {
    const Case c = draw(replicas, random.pick({DType::kF32, DType::kF64}));
    on_ranks(c, [&](Communicator& dp) {
      const train::TrainResult result =
          train::train_with(setup_of(dp, c, test::in_buckets(dp, test::kEverything)), dp);
      std::size_t sent = 0;
      const std::size_t operations = replicas == 1 ? 1 : 2;
      for (const train::RankSummary& rank : result.ranks) {
        EXPECT_EQ(rank.communication[OpKind::kAllReduce].operations, operations * c.options.steps)
            << "in each step a bucket; and the loss with the parameters' squared norms";
        EXPECT_EQ(rank.communication.sent_bytes(),
                  rank.communication[OpKind::kAllReduce].sent_bytes);
        sent += rank.communication.sent_bytes();
      }
      nn::DenseFactory dense;
      const std::size_t figures = nn::named_shapes(c.options.model, dense).size() + 1;
      const std::size_t gradient_bytes = result.parameters * size_of(c.options.dtype);
      const auto others = static_cast<std::size_t>(c.replicas) - 1;
      EXPECT_EQ(sent, c.options.steps * 2 * others * (gradient_bytes + figures * sizeof(double)));
    });
  }
}

TEST_F(DataParallelTraining, HoldsTheGradientsOnce) {
  Case c = draw(2, DType::kF32);
  c.options.global_batch = 4;
  c.micro_batch = c.options.micro_batch = 2;
  on_ranks(c, [&](Communicator& dp) {
    const train::TrainResult one = run_alone(dp, c.options).result;
    for (const SyncWay& way : test::all_ways(dp)) {
      const train::TrainResult run = train::train_with(setup_of(dp, c, way), dp);
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

TEST_F(DataParallelTraining, OneSetupTrainsModelAfterModel) {
  const Case c = draw(2, DType::kF64);
  on_ranks(c, [&](Communicator& dp) {
    int made = 0;
    SyncWay counted = test::in_buckets(dp, 500);
    counted.make = [&made, make = counted.make](const std::vector<nn::Parameter*>& parameters) {
      ++made;
      return make(parameters);
    };
    const train::Setup setup = setup_of(dp, c, counted);
    const train::TrainResult first = train::train_with(setup, dp);
    const train::TrainResult second = train::train_with(setup, dp);
    EXPECT_EQ(losses_and_norms(second), losses_and_norms(first));
    EXPECT_EQ(made, 2) << "one exchange for each model, not for each step";
  });
}

TEST_F(DataParallelTraining, ABatchSmallerThanTheReplicasIsAnError) {
  Case c = draw(4, DType::kF32);
  c.options.global_batch = 3;
  on_ranks(c, [&](Communicator& dp) {
    const std::string message = ultra::test::message_of<ConfigError>(
        [&] { static_cast<void>(run_on(dp, c, test::all_ways(dp).front())); });
    EXPECT_THAT(message, HasSubstr("a global batch of 3"));
  });
}

}  // namespace
}  // namespace ultra::data_parallel
