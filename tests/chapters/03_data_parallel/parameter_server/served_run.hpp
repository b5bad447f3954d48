#pragma once
/// @file
/// Training runs with a parameter server, and what they are compared with.

#include "chapters/01_memory/written_parts.hpp"
#include "chapters/03_data_parallel/parameter_server/server_technique.hpp"
#include "chapters/03_data_parallel/parameter_server/server_training.hpp"
#include "common/base/numeric.hpp"
#include "common/optim/adamw.hpp"
#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/chapters/03_data_parallel/sync_ways.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mesh_case.hpp"

namespace ultra::data_parallel::test {

using namespace ultra::test;

using collectives::test::run_alone;

inline constexpr Priority kPriorities[] = {Priority::kNone, Priority::kWaitFree,
                                           Priority::kPriority};

/// @brief A run on replicas and servers.
struct ServedCase {
  int replicas = 1;
  ServerSettings settings;
  std::size_t micro_batch = 1;  ///< of the replicas; options.micro_batch is for one rank
  std::string recompute;        ///< the flags of chapter 01
  train::TrainOptions options;
  RankOptions ranks = in_rank_order();

  [[nodiscard]] int world_size() const { return replicas + settings.servers; }
  [[nodiscard]] std::string str() const {
    return fmt::format(
        "{} replicas, {} servers, {} in slices of {}{}, {} {}", replicas, settings.servers,
        to_string(settings.priority), settings.slice_capacity,
        settings.asynchronous ? fmt::format(", staleness {}", settings.staleness) : std::string(),
        text_of(options, micro_batch), recompute);
  }
};

/// @brief Calls a function when a replica begins a step: 1 for the first.
inline train::MakeObserver before_steps(std::function<void(std::size_t step)> call) {
  class Observer : public train::StepObserver {
   public:
    explicit Observer(std::function<void(std::size_t)> call) : call_(std::move(call)) {}
    void step_begins(const train::StepPlan& plan) override { call_(plan.step); }

   private:
    std::function<void(std::size_t)> call_;
  };
  return [call = std::move(call)](const train::ModelScope&) {
    return std::make_unique<Observer>(call);
  };
}

/// @brief Trains on replicas and servers; a replica keeps the weights that it ends with.
/// @param observer  of a replica's steps; may be empty.
/// @param rule      of the servers' optimizer.
inline RankRun run_served(const Communicator& world, const ServedCase& c,
                          const train::MakeObserver& observer = {},
                          const optim::Rule& rule = optim::adamw({}, memory::written_adamw)) {
  std::vector<Tensor> values;
  const auto keep = [&](train::StepConfig& step_config) {
    if (observer) step_config.observers.push_back(observer);
    step_config.observers.emplace_back([&values](const train::ModelScope& scope) {
      for (const nn::Parameter* parameter : scope.chunks.front()->parameters()) {
        values.push_back(parameter->value());
      }
      return std::make_unique<train::StepObserver>();
    });
  };
  RankRun run;
  run.result = train::train_with(
      setup_of(c.options, world.size(),
               train::list_of(memory::technique(), collectives::technique(), parameter_servers(),
                              cutting_into(c.micro_batch), putting(keep)),
               fmt::format("--servers {} {}", c.settings.servers, c.recompute)),
      world, [&](const train::Setup& setup, const train::RunContext& context) {
        return parameter_server_worker(make_server_world(context.world, c.settings), setup, context,
                                       rule);
      });
  for (const Tensor& value : values) run.weights.push_back(value.to_vector());
  return run;
}

/// @brief The same replicas without servers: they add up by all-reduce, in the order of the ranks.
inline RankRun run_all_reduce(const Communicator& replicas, const ServedCase& c) {
  return run_of(setup_of(c.options, replicas.size(),
                         train::list_of(memory::technique(), collectives::technique(), technique(),
                                        cutting_into(c.micro_batch)),
                         "--overlap none"),
                replicas);
}

/// @brief Losses and gradient norms within a relative distance.
inline void expect_near_figures(const RankRun& actual, const RankRun& expected, double relative) {
  expect_near_losses(actual, expected, relative);
  expect_near_norms(actual, expected, relative);
}

/// @brief Random small runs, with a watchdog: servers and replicas must never wait for ever.
class ServedTest : public RandomTest {
 protected:
  ServedCase draw(int replicas, int servers, DType dtype) {
    ServedCase c{
        .replicas = replicas,
        .settings = {.servers = servers,
                     .priority = random.pick({kPriorities[0], kPriorities[1], kPriorities[2]})},
        .micro_batch = random.between(1, 3),
        .recompute = random.pick({"--recompute none", "--recompute selective", "--recompute full",
                                  "--recompute full --recompute-every 2"}),
        .options = random_run(random, seed, checked_cast<std::size_t>(replicas), dtype)};
    c.settings.slice_capacity = random.pick<std::size_t>({0, 300, random.between(200, 5000)});
    c.ranks.progress = random.pick({Progress::kThread, Progress::kThread, Progress::kOnCall});
    return c;
  }

  static void on_ranks(const ServedCase& c, const std::function<void(Communicator&)>& fn) {
    run_quietly(c.str(), c.world_size(), fn, c.ranks);
  }

 private:
  Watchdog watchdog_{std::chrono::seconds(110)};
};

}  // namespace ultra::data_parallel::test
