#pragma once
/// @file
/// Training runs with ZeRO, random draws of them, and the runs that they must equal.

#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/01_memory/recompute.hpp"
#include "chapters/01_memory/recompute_mode.hpp"
#include "chapters/02_collectives/replicated_training.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/stages.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/04_zero/zero_stage.hpp"
#include "common/base/numeric.hpp"
#include "common/ops/elementwise.hpp"
#include "common/optim/adamw.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mesh_case.hpp"

namespace ultra::zero::test {

using namespace ultra::test;
using collectives::test::run_alone;

inline constexpr ZeroStage kSharded[] = {ZeroStage::kOptimizer, ZeroStage::kGradients,
                                         ZeroStage::kParameters};
inline constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();
inline constexpr std::size_t kCapacities[] = {0, 1, 997, 4096, kEverything};

inline RankOptions in_rank_order(Progress progress = Progress::kThread) {
  RankOptions options = ultra::test::in_rank_order();
  options.timeout = std::chrono::seconds(100);  // a hang would be one
  options.progress = progress;
  return options;
}

/// @brief A run on replicas.
struct ZeroCase {
  int ranks = 1;
  std::optional<std::size_t> node_size;
  std::size_t matrices_at_once = 0;  ///< of a step of Muon; 0: all
  std::size_t micro_batch = 1;       ///< of a replica; options.micro_batch is for one rank
  ZeroSettings settings;
  memory::RecomputeConfig recompute;
  train::TrainOptions options;

  [[nodiscard]] int shards() const { return node_size ? static_cast<int>(*node_size) : ranks; }
  /// Sequences of the replica that has most of them.
  [[nodiscard]] std::size_t largest_share() const {
    return ceil_div(options.global_batch, static_cast<std::size_t>(ranks));
  }
  [[nodiscard]] std::size_t passes() const { return ceil_div(largest_share(), micro_batch); }
  /// With what is computed again, which decides when units are used.
  [[nodiscard]] ZeroSettings all_settings() const {
    ZeroSettings all = settings;
    const bool again = recompute.mode == memory::Recompute::kFull;
    all.recompute_every = again ? recompute.recompute_every : 0;
    return all;
  }

  [[nodiscard]] std::string str() const {
    return fmt::format(
        "{} on {} ranks in nodes of {}, {}, buckets of {}, overlap {}, prefetch {}, reshard {}, "
        "{}, "
        "recompute {} every {}",
        name_of(settings.stage), ranks, shards(), settings.cut == ShardCut::kRows ? "rows" : "flat",
        settings.bucket_capacity, settings.overlap == Overlap::kOn ? "on" : "off",
        settings.prefetch, settings.reshard == Reshard::kAfterForward ? "yes" : "no",
        text_of(options, micro_batch), to_string(recompute.mode), recompute.recompute_every);
  }
};

/// @brief Random small runs, with a watchdog.
class ZeroTest : public MeshTest {
 protected:
  ZeroSettings draw_settings(ZeroStage stage) {
    return {.stage = stage,
            .bucket_capacity = random.pick(
                {kCapacities[0], kCapacities[1], kCapacities[2], kCapacities[3], kCapacities[4]}),
            .cut = stage == ZeroStage::kParameters ? random.pick({ShardCut::kFlat, ShardCut::kRows})
                                                   : ShardCut::kFlat,
            .overlap = random.pick({Overlap::kOff, Overlap::kOn}),
            .prefetch = random.between(0, 3),
            .reshard = random.pick({Reshard::kAfterForward, Reshard::kAfterBackward})};
  }

  /// Uneven shares, micro-batches that do not divide them, odd sizes.
  ZeroCase draw(int ranks, ZeroStage stage, DType dtype) {
    return {.ranks = ranks,
            .node_size = {},
            .micro_batch = random.between(1, 3),
            .settings = draw_settings(stage),
            .recompute = {},
            .options = random_run(random, seed, checked_cast<std::size_t>(ranks), dtype)};
  }

  static void on_ranks(const ZeroCase& c, const std::function<void(Communicator&)>& fn,
                       const RankOptions& options = in_rank_order()) {
    run_quietly(c.str(), c.ranks, fn, options);
  }
};

// Runs --------------------------------------------------------------------------------------------

/// @brief What a test may put into a run.
struct StageChanges {
  optim::Rule rule = {};                           ///< none: that of the options
  train::MakeExchange exchange = {};               ///< given: nothing is sharded
  train::MakeObserver observer = {};               ///< of a rank's steps
  std::function<void(const Device&)> device = {};  ///< called with the rank's before its model
  std::function<std::unique_ptr<train::Worker>(std::unique_ptr<train::Worker>,
                                               const train::TrainerState&)>
      worker = {};  ///< puts something around a rank's worker
};

/// Called with the number of a step, 1 for the first, and a rank's model.
using InStep = std::function<void(std::size_t step, nn::Model& model)>;

/// @brief Calls functions where each step begins, and where it has updated the weights.
inline train::MakeObserver observing(
    InStep begins, InStep ends = [](std::size_t, nn::Model&) {}) {
  struct Observer : train::StepObserver {
    void step_begins(const train::StepPlan& plan) override { begins(plan.step, *model); }
    void step_ends(const train::StepPlan& plan) override { ends(plan.step, *model); }
    nn::Model* model;
    InStep begins;
    InStep ends;
  };
  return [begins = std::move(begins), ends = std::move(ends)](const train::ModelScope& scope) {
    auto observer = std::make_unique<Observer>();
    observer->model = scope.chunks.front();
    observer->begins = begins;
    observer->ends = ends;
    return observer;
  };
}

/// @brief A case as a technique, with a test's changes.
class CaseTechnique : public train::Technique {
 public:
  CaseTechnique(ZeroCase c, StageChanges changes)
      : case_(std::move(c)), changes_(std::move(changes)) {}

  void configure_step(train::StepConfig& step_config, const train::Setup&) const override {
    step_config.schedule.offer(memory::accumulation_schedule);
    if (changes_.rule) step_config.rule = changes_.rule;
    if (changes_.observer) step_config.observers.push_back(changes_.observer);
    if (changes_.exchange) return step_config.exchange.claim("a test", changes_.exchange);
    step_config.values = nn::Values::kDeferred;
    step_config.states.claim(
        "a test", sharded_states(case_.all_settings(), case_.node_size, case_.matrices_at_once));
  }
  void wrap_layers(train::FactoryStack& factories, const train::Plan&,
                   const train::Setup&) const override {
    factories.push_back(
        std::make_unique<memory::RecomputeFactory>(*factories.back(), case_.recompute));
  }
  std::unique_ptr<train::Worker> wrap_worker(std::unique_ptr<train::Worker> worker,
                                             const train::TrainerState& trainer,
                                             const train::Setup&) const override {
    return changes_.worker ? changes_.worker(std::move(worker), trainer) : std::move(worker);
  }

 private:
  ZeroCase case_;
  StageChanges changes_;
};

/// @brief The setup of a training on the ranks of `dp`, as the program has it.
inline train::Setup zero_setup(const Communicator& dp, const ZeroCase& c,
                               const StageChanges& changes) {
  return setup_of(
      c.options, dp.size(),
      train::list_of(data_parallel::technique(), std::make_unique<CaseTechnique>(c, changes),
                     cutting_into(c.micro_batch)));
}

/// @brief Trains with ZeRO on the ranks of `dp`.
inline train::TrainResult train_zero(const Communicator& dp, const ZeroCase& c,
                                     const StageChanges& changes = {}) {
  return train::train_with(zero_setup(dp, c, changes), dp,
                           [&](const train::Setup& setup, const train::RunContext& context) {
                             if (changes.device) changes.device(context.device);
                             return train::make_trainer(setup, context, dp);
                           });
}

/// @brief What ranks end with of which one trains in another way; expects that no tensor is left.
inline Fates fates_of_ranks(const ZeroCase& c,
                            const std::function<std::pair<ZeroCase, StageChanges>(int)>& of_rank) {
  std::vector<std::optional<Device>> devices(static_cast<std::size_t>(c.ranks));
  Fates found;
  quietly([&] {
    found = fates_of(
        c.ranks,
        [&](Communicator& dp) {
          auto [own, changes] = of_rank(dp.rank());
          changes.device = [&, limit = std::move(changes.device)](const Device& device) {
            devices[static_cast<std::size_t>(dp.rank())] = device;
            if (limit) limit(device);
          };
          static_cast<void>(train_zero(dp, own, changes));
        },
        in_rank_order());
  });
  if (launched_world_size()) return found;  // MPI keeps what nobody received until its end
  for (const std::optional<Device>& own : devices) {
    EXPECT_EQ(own ? own->memory().current().total() : 0U, 0U) << c.str();
  }
  return found;
}

/// @brief The flat arrays of a model, which of a run's stage they are; no weights are made.
inline std::vector<ParameterGroup> groups_of(nn::Model& model, const ZeroCase& c) {
  nn::Model* const chunk = &model;
  const std::span<nn::Model* const> chunks(&chunk, 1);
  return c.settings.stage == ZeroStage::kParameters
             ? groups_by_part(chunks, model.parameters(), c.shards(), c.settings.cut)
             : groups_by_bucket(chunks, model.parameters(), c.settings.bucket_capacity, c.shards());
}

/// @brief A model of the case without weights.
inline nn::Model deferred_model(const ZeroCase& c, nn::LayerFactory& factory) {
  return {c.options.model,      Device::cpu(), c.options.dtype,
          c.options.seed,       factory,       nn::StageSpec::whole(c.options.model),
          nn::Values::kDeferred};
}

/// @brief What one rank of a sharded run had at the end; its weights are those of all shards
/// together.
struct ZeroRun : RankRun {
  std::vector<std::vector<double>> replica;  ///< where a rank has all weights: in stages 1 and 2
};

/// @brief Trains with ZeRO and brings the weights together.
inline ZeroRun run_zero(const Communicator& dp, const ZeroCase& c) {
  ZeroRun run;
  StageChanges changes;
  changes.observer = observing([](std::size_t, nn::Model&) {},
                               [&](std::size_t, const nn::Model& model) {
                                 run.replica.clear();
                                 for (const nn::Parameter* parameter : model.parameters()) {
                                   if (!parameter->has_value()) continue;
                                   run.replica.push_back(parameter->value().to_vector());
                                 }
                               });
  static_cast<RankRun&>(run) = run_of(zero_setup(dp, c, changes), dp);
  expect_saved_once(run);
  return run;
}

/// @brief Trains replicas that hold everything, whose gradients an exchange adds up.
inline RankRun run_replicas(const Communicator& dp, const ZeroCase& c,
                            const train::MakeExchange& exchange) {
  StageChanges changes;
  changes.exchange = exchange;
  return run_of(zero_setup(dp, c, changes), dp);
}

/// @brief Plain data parallelism, its gradients added up when all micro-batches are over.
inline RankRun run_plain(const Communicator& dp, const ZeroCase& c) {
  return run_replicas(dp, c, [](const train::StatesScope& scope) {
    return collectives::sum_after_backward(scope.parameters, scope.data);
  });
}

/// @brief Plain data parallelism in ZeRO-2's order: each micro-batch's gradients are added up over
/// the replicas, then to those of the micro-batches before.
inline RankRun run_summing_each_pass(const Communicator& dp, const ZeroCase& c) {
  class Exchange : public train::GradientExchange {
   public:
    Exchange(std::vector<nn::Parameter*> parameters, Communicator ranks)
        : parameters_(std::move(parameters)), ranks_(std::move(ranks)), sums_(parameters_.size()) {}

    void action_ends(std::size_t) override {
      for (std::size_t p = 0; p < sums_.size(); ++p) {
        const Tensor sum = parameters_[p]->grad();
        parameters_[p]->drop_grad();
        ranks_.all_reduce(sum).wait();
        if (sums_[p].defined()) {
          ops::add_into(sums_[p], sum);
        } else {
          sums_[p] = sum;
        }
      }
    }
    void finish() override {
      for (std::size_t p = 0; p < sums_.size(); ++p) {
        parameters_[p]->add_grad([sum = std::exchange(sums_[p], Tensor())](
                                     const Tensor& grad, ops::Write) { grad.copy_from(sum); });
      }
    }

   private:
    std::vector<nn::Parameter*> parameters_;
    Communicator ranks_;
    std::vector<Tensor> sums_;
  };
  return run_replicas(dp, c, [](const train::StatesScope& scope) {
    return std::make_unique<Exchange>(scope.parameters, scope.data);
  });
}

// Comparisons -------------------------------------------------------------------------------------

/// @brief Losses and weights of a sharded run bit for bit those of a run in which each rank has
/// all.
inline void expect_same_bits(const ZeroRun& actual, const RankRun& expected) {
  EXPECT_EQ(losses_of(actual.result), losses_of(expected.result));
  expect_near_norms(actual, expected, 1e-12);
  EXPECT_TRUE(actual.weights == expected.weights) << "weights";
  if (!actual.replica.empty()) {
    EXPECT_TRUE(actual.replica == expected.weights) << "what is gathered";
  }
}

}  // namespace ultra::zero::test
