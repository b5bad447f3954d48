#pragma once
/// @file
/// Training runs with a parameter server, and what they are compared with.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "chapters/01_memory/recompute.hpp"
#include "chapters/03_data_parallel/data_parallel_training.hpp"
#include "chapters/03_data_parallel/parameter_server/server_training.hpp"
#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/chapters/02_collectives/run_comparison.hpp"
#include "tests/chapters/03_data_parallel/sync_ways.hpp"
#include "tests/support/random.hpp"
#include "tests/support/random_run.hpp"
#include "tests/support/watchdog.hpp"

namespace ultra::data_parallel::test {

using collectives::test::expect_near_weights;
using collectives::test::losses_and_norms;
using collectives::test::RankRun;
using collectives::test::run_alone;
using collectives::test::run_with;
using train::test::expect_same_on_all;
using train::test::quietly;

inline constexpr Priority kPriorities[] = {Priority::kNone, Priority::kWaitFree,
                                           Priority::kPriority};

/// @brief A run on replicas and servers.
struct ServedCase {
  int replicas = 1;
  ServerSettings settings;
  std::size_t micro_batch = 1;  ///< of the replicas; options.micro_batch is for one rank
  memory::RecomputeConfig recompute;
  train::TrainOptions options;
  RankOptions ranks = in_rank_order();

  [[nodiscard]] int world_size() const { return replicas + settings.servers; }
  [[nodiscard]] std::string str() const {
    const nn::ModelConfig& m = options.model;
    return fmt::format(
        "{} replicas, {} servers, {} in slices of {}{}, L {} h {} a {} kv {} f {} s {}, "
        "micro-batch "
        "{} of {}, clip {}, recompute {} every {}, {}",
        replicas, settings.servers, to_string(settings.priority), settings.slice_capacity,
        settings.asynchronous ? fmt::format(", staleness {}", settings.staleness) : std::string(),
        m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads, m.ffn_hidden_size, m.max_seq_len,
        micro_batch, options.global_batch, options.clip_norm, static_cast<int>(recompute.mode),
        recompute.recompute_every, to_string(options.dtype));
  }
};

using Change = std::function<train::ForwardBackward(train::ForwardBackward)>;

/// @brief Trains on replicas and servers; a replica keeps the weights that it ends with.
/// @param change  of a replica's passes; may be empty.
/// @param adamw   the servers' update of one tensor.
inline RankRun run_served(const Communicator& world, const ServedCase& c, const Change& change = {},
                          const optim::AdamWUpdate& adamw = ops::adamw_into) {
  nn::DenseFactory dense;
  memory::RecomputeFactory factory(dense, c.recompute);
  std::vector<Tensor> values;
  const auto keep = [&values, &change](train::ForwardBackward inner) -> train::ForwardBackward {
    if (change) inner = change(std::move(inner));
    return [&values, inner = std::move(inner)](nn::Model& model, const data::Sampler& sampler,
                                               std::size_t step) {
      if (values.empty()) {
        for (const nn::Parameter* parameter : model.parameters()) {
          values.push_back(parameter->value());
        }
      }
      return inner(model, sampler, step);
    };
  };
  const ServerWorld servers = make_server_world(world, c.settings);
  RankRun run;
  run.result = train::train(
      c.options,
      parameter_server_worker(
          servers,
          {.factory = factory, .micro_batch = c.micro_batch, .adamw = adamw, .change = keep}),
      {}, world);
  for (const Tensor& value : values) run.weights.push_back(value.to_vector());
  return run;
}

/// @brief The same replicas without servers: they average by all-reduce, in the order of the ranks.
inline RankRun run_all_reduce(const Communicator& replicas, const ServedCase& c) {
  return run_with(data_parallel_forward_backward(
                      replicas, c.micro_batch,
                      [&](nn::Model& model) { return sync_after_backward(model, replicas); }),
                  replicas, c.options);
}

/// @brief Losses and gradient norms within a relative distance.
inline void expect_near_figures(const RankRun& actual, const RankRun& expected, double relative) {
  ASSERT_EQ(actual.result.steps.size(), expected.result.steps.size());
  for (std::size_t i = 0; i < expected.result.steps.size(); ++i) {
    const train::StepMetrics& found = actual.result.steps[i];
    const train::StepMetrics& wanted = expected.result.steps[i];
    EXPECT_NEAR(found.loss, wanted.loss, relative * wanted.loss) << "step " << i + 1;
    EXPECT_NEAR(found.grad_norm, wanted.grad_norm, relative * wanted.grad_norm) << "step " << i + 1;
  }
}

/// @brief Random small runs, with a watchdog: servers and replicas must never wait for ever.
class ServedTest : public ultra::test::RandomTest {
 protected:
  ServedCase draw(int replicas, int servers, DType dtype) {
    ServedCase c{
        .replicas = replicas,
        .settings = {.servers = servers,
                     .priority = random.pick({kPriorities[0], kPriorities[1], kPriorities[2]})},
        .micro_batch = random.between(1, 3),
        .recompute = {.mode = random.pick({memory::Recompute::kNone, memory::Recompute::kSelective,
                                           memory::Recompute::kFull}),
                      .recompute_every = 1},
        .options = ultra::test::random_run(random, seed, replicas, dtype)};
    c.settings.slice_capacity = random.pick<std::size_t>({0, 300, random.between(200, 5000)});
    if (c.recompute.mode == memory::Recompute::kFull) {
      c.recompute.recompute_every = random.between(1, 2);
    }
    c.ranks.progress = random.pick({Progress::kThread, Progress::kThread, Progress::kOnCall});
    return c;
  }

  static void on_ranks(const ServedCase& c, const std::function<void(Communicator&)>& fn) {
    SCOPED_TRACE(c.str());
    quietly([&] { run_ranks(c.world_size(), fn, c.ranks); });
    if (HasFailure()) std::printf("%s\n", c.str().c_str());
  }

 private:
  ultra::test::Watchdog watchdog_{std::chrono::seconds(110)};
};

}  // namespace ultra::data_parallel::test
