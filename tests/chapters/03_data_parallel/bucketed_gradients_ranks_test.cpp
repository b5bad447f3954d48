// Gradients of several replicas: what adds them up sends what it must and no more, takes no memory beside
// the gradients, and fails without hanging.

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "chapters/03_data_parallel/bucketed_gradients.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/chapters/03_data_parallel/sync_ways.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/watchdog.hpp"

namespace ultra::data_parallel {
namespace {

using test::Followed;
using test::Replica;
using test::SyncWay;
using ultra::test::is_a;
using ultra::test::Random;

constexpr int kReplicas[] = {1, 2, 3, 4, 5};

/// What a step is made of; the same on every rank.
struct Step {
  int replicas;
  nn::ModelConfig config;
  DType dtype;
  std::size_t global_batch;
  std::size_t micro_batch;

  [[nodiscard]] std::string str() const {
    return fmt::format("{} replicas, L {} h {} f {} s {}, {}, micro-batch {} of {}", replicas,
                       config.num_layers, config.hidden_size, config.ffn_hidden_size,
                       config.max_seq_len, to_string(dtype), micro_batch, global_batch);
  }
};

std::size_t gradient_bytes(const Replica& replica) {
  const Tensor& value = replica.model.parameters()[0]->value();
  return replica.model.parameter_count() * size_of(value.dtype());
}

class BucketsOnRanks : public ultra::test::RandomTest {
 protected:
  Step draw(int replicas) {
    const auto least = static_cast<std::size_t>(replicas);
    return {.replicas = replicas,
            .config = test::random_config(random),
            .dtype = random.pick({DType::kF32, DType::kF64}),
            .global_batch = least + random.between(0, 2 * least),
            .micro_batch = random.between(1, 3)};
  }

  /// One step of a replica; keeps the gradients.
  void step_on(nn::Model& model, const SyncWay& way, const Communicator& dp, const Step& step) {
    step_on(model, *way.make(model.parameters()), dp, step);
  }
  void step_on(nn::Model& model, train::GradientExchange& exchange, const Communicator& dp,
               const Step& step) {
    const data::Sampler global(text, step.config.max_seq_len, step.global_batch, seed);
    Followed(model, exchange).step(global, dp, step.micro_batch);
  }

  data::Dataset text = test::random_text(random);

 private:
  ultra::test::Watchdog watchdog_{std::chrono::seconds(100)};
};

TEST_F(BucketsOnRanks, GradientsMayBecomeReadyInAnotherOrderOnEachRank) {
  const nn::ModelConfig config = test::random_config(random);
  const std::uint64_t orders = random.between(0, 1'000'000);
  run_ranks(4, [&](Communicator& dp) {
    Replica replica(config, DType::kF64, seed);
    const std::vector<nn::Parameter*>& parameters = replica.model.parameters();
    const auto exchange = test::in_buckets(dp, 300).make(parameters);
    Followed followed(replica.model, *exchange);
    Random own(orders + static_cast<std::uint64_t>(dp.rank()));
    for (int step = 0; step < 3; ++step) {
      std::vector<std::size_t> order(parameters.size());
      std::iota(order.begin(), order.end(), 0);
      for (std::size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[own.between(0, i - 1)]);
      }
      followed.begin(1);
      followed.pass([&] {
        for (const std::size_t p : order) {
          test::make_gradient(*parameters[p], static_cast<double>(p) + dp.rank());
        }
      });
      followed.finish();
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        const double sum = 4 * static_cast<double>(p) + 6;
        EXPECT_TRUE(ultra::test::all_equal(parameters[p]->grad(),
                                           std::vector<double>(parameters[p]->count(), sum)))
            << parameters[p]->name();
      }
      replica.model.drop_grads();
    }
  });
}

// Traffic and memory ------------------------------------------------------------------------------

/// All-reduces and bytes sent by a rank in one step.
CommStats::PerKind traffic_of(const std::function<void()>& step, const Communicator& dp) {
  const CommStats before = dp.stats();
  step();
  const CommStats after = dp.stats();
  EXPECT_EQ(after.sent_bytes() - before.sent_bytes(),
            after[OpKind::kAllReduce].sent_bytes - before[OpKind::kAllReduce].sent_bytes)
      << "all-reduces are all that is sent";
  return {after[OpKind::kAllReduce].operations - before[OpKind::kAllReduce].operations,
          after[OpKind::kAllReduce].sent_bytes - before[OpKind::kAllReduce].sent_bytes};
}

TEST_F(BucketsOnRanks, OneAllReducePerBucketAndStepHoweverManyMicroBatchesThereAre) {
  for (const int replicas : kReplicas) {
    const Step drawn = draw(replicas);
    const std::size_t capacity = random.pick<std::size_t>({0, 331, test::kEverything});
    run_ranks(
        replicas,
        [&](Communicator& dp) {
          for (const std::size_t micro_batch : {1U, 2U, 100U}) {
            Step step = drawn;
            step.micro_batch = micro_batch;
            Replica replica(step.config, step.dtype, seed);
            std::vector<std::size_t> counts;
            for (const nn::Parameter* parameter : replica.model.parameters()) {
              counts.push_back(parameter->value().numel());
            }
            const CommStats::PerKind traffic = traffic_of(
                [&] { step_on(replica.model, test::in_buckets(dp, capacity), dp, step); }, dp);
            const auto others = static_cast<std::size_t>(replicas) - 1;
            auto sent_by_all = static_cast<double>(traffic.sent_bytes);
            train::sum_over(dp, {&sent_by_all, 1});
            SCOPED_TRACE(step.str());
            EXPECT_EQ(traffic.operations, assign_buckets(counts, capacity).size());
            EXPECT_EQ(sent_by_all, static_cast<double>(2 * others * gradient_bytes(replica)));
          }
        },
        test::in_rank_order());
  }
}

TEST_F(BucketsOnRanks, GradientsHaveNoSecondCopy) {
  const Step step = draw(3);
  SCOPED_TRACE(step.str());
  run_ranks(
      3,
      [&](Communicator& dp) {
        for (const SyncWay& way : test::all_ways(dp)) {
          Replica replica(step.config, step.dtype, seed);
          const auto exchange = way.make(replica.model.parameters());
          for (int i = 0; i < 2; ++i) {
            step_on(replica.model, *exchange, dp, step);
            replica.model.drop_grads();
            EXPECT_EQ(replica.device.memory().current()[MemoryCategory::kGradients], 0U);
          }
          EXPECT_EQ(replica.device.memory().peak(MemoryCategory::kGradients).bytes,
                    gradient_bytes(replica))
              << way.name;
        }
      },
      test::in_rank_order());
}

// Failing -----------------------------------------------------------------------------------------

RankOptions patient() {
  RankOptions options;
  options.timeout = std::chrono::seconds(60);  // a hang would be one
  return options;
}

TEST_F(BucketsOnRanks, OtherBucketsOnAnotherRankAreReported) {
  const nn::ModelConfig config = test::random_config(random);
  for (const Flush flush : {Flush::kWhenReady, Flush::kAfterBackward}) {
    const ultra::test::Fates fates = ultra::test::fates_of(
        3,
        [&](Communicator& dp) {
          Replica replica(config, DType::kF32, seed);
          const std::size_t capacity = dp.rank() == 1 ? 0 : test::kEverything;
          step_on(replica.model, test::in_buckets(dp, capacity, flush), dp,
                  {.replicas = 3,
                   .config = config,
                   .dtype = DType::kF32,
                   .global_batch = 3,
                   .micro_batch = 1});
        },
        patient());
    for (const auto& [rank, fate] : fates.ranks) {
      EXPECT_TRUE(is_a<CommMismatch>(fate.error) || is_a<RankFailed>(fate.error)) << fate.message;
      EXPECT_THAT(fate.message, HasSubstr("call different operations")) << "rank " << rank;
    }
  }
}

TEST_F(BucketsOnRanks, AGradientThatOneRankLacksStopsAll) {
  const nn::ModelConfig config = test::random_config(random);
  for (const Flush flush : {Flush::kWhenReady, Flush::kAfterBackward}) {
    const ultra::test::Fates fates = ultra::test::fates_of(
        3,
        [&](Communicator& dp) {
          Replica replica(config, DType::kF32, seed);
          const std::vector<nn::Parameter*>& parameters = replica.model.parameters();
          const auto exchange = test::in_buckets(dp, 200, flush).make(parameters);
          Followed followed(replica.model, *exchange);
          followed.begin(1);
          followed.pass([&] {
            const std::size_t missing = dp.rank() == 2 ? 1 : parameters.size();
            for (std::size_t p = parameters.size(); p-- > 0;) {
              if (p != missing) test::make_gradient(*parameters[p], 1.0);
            }
          });
          followed.finish();
        },
        patient());
    for (const auto& [rank, fate] : fates.ranks) {
      EXPECT_EQ(is_a<ConfigError>(fate.error), rank == 2) << fate.message;
      EXPECT_EQ(is_a<RankFailed>(fate.error), rank != 2) << fate.message;
      EXPECT_THAT(fate.message, HasSubstr("no gradient")) << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace ultra::data_parallel
