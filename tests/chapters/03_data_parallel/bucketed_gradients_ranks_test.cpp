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

using namespace test;

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

class BucketsOnRanks : public RandomTest {
 protected:
  Step draw(int replicas) {
    const auto least = static_cast<std::size_t>(replicas);
    return {.replicas = replicas,
            .config = random_config(random),
            .dtype = random.pick({DType::kF32, DType::kF64}),
            .global_batch = least + random.between(0, 2 * least),
            .micro_batch = random.between(1, 3)};
  }

  /// One step of a replica; keeps the gradients.
  void step_on(nn::Model& model, train::GradientExchange& exchange, const Communicator& dp,
               const Step& step) {
    const data::Sampler global(text, step.config.max_seq_len, step.global_batch, seed);
    Followed(model, exchange).step(global, dp, step.micro_batch);
  }

  data::Dataset text = random_text(random);

 private:
  Watchdog watchdog_{std::chrono::seconds(100)};
};

TEST_F(BucketsOnRanks, GradientsMayBecomeReadyInAnotherOrderOnEachRank) {
  const nn::ModelConfig config = random_config(random);
  const std::uint64_t orders = random.between(0, 1'000'000);
  run_ranks(4, [&](Communicator& dp) {
    Replica replica(config, DType::kF64, seed);
    const std::vector<nn::Parameter*>& parameters = replica.model.parameters();
    const auto exchange = in_buckets(dp, 300).make(parameters);
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
          make_gradient(*parameters[p], static_cast<double>(p) + dp.rank());
        }
      });
      followed.finish();
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        const double sum = 4 * static_cast<double>(p) + 6;
        EXPECT_TRUE(
            all_equal(parameters[p]->grad(), std::vector<double>(parameters[p]->count(), sum)))
            << parameters[p]->name();
      }
      replica.model.drop_grads();
    }
  });
}

TEST_F(BucketsOnRanks, GradientsHaveNoSecondCopy) {
  const Step step = draw(3);
  SCOPED_TRACE(step.str());
  run_ranks(
      3,
      [&](Communicator& dp) {
        for (const SyncWay& way : all_ways(dp)) {
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
      in_rank_order());
}

TEST_F(BucketsOnRanks, OtherBucketsOnAnotherRankAreReported) {
  const nn::ModelConfig config = random_config(random);
  RankOptions options;
  options.timeout = std::chrono::seconds(60);  // a hang would be one
  for (const Flush flush : {Flush::kWhenReady, Flush::kAfterBackward}) {
    const Fates fates = fates_of(
        3,
        [&](Communicator& dp) {
          Replica replica(config, DType::kF32, seed);
          const std::size_t capacity = dp.rank() == 1 ? 0 : kEverything;
          const auto exchange = in_buckets(dp, capacity, flush).make(replica.model.parameters());
          step_on(replica.model, *exchange, dp,
                  {.replicas = 3,
                   .config = config,
                   .dtype = DType::kF32,
                   .global_batch = 3,
                   .micro_batch = 1});
        },
        options);
    for (const auto& [rank, fate] : fates.ranks) {
      EXPECT_TRUE(is_a<CommMismatch>(fate.error) || is_a<RankFailed>(fate.error)) << fate.message;
      EXPECT_THAT(fate.message, HasSubstr("call different operations")) << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace ultra::data_parallel
