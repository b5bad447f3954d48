#pragma once
/// @file
/// Training runs on a mesh dp x tp, wired as the executable wires them, and the runs that they must equal.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chapters/01_memory/recompute.hpp"
#include "chapters/03_data_parallel/data_parallel_training.hpp"
#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "chapters/04_zero/zero_options.hpp"
#include "chapters/04_zero/zero_training.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_program.hpp"
#include "common/train/trainer.hpp"
#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/chapters/02_collectives/run_comparison.hpp"
#include "tests/support/random_run.hpp"
#include "tests/support/watchdog.hpp"

namespace ultra::tensor_parallel::test {

using collectives::test::expect_near_losses;
using collectives::test::expect_near_weights;
using collectives::test::losses_and_norms;
using collectives::test::RankRun;
using collectives::test::run_alone;
using train::test::expect_same_on_all;
using train::test::quietly;

/// @brief A run on a mesh.
struct SplitCase {
  MeshShape mesh;
  SequenceParallel sequence_parallel = SequenceParallel::kOff;
  TensorOverlap overlap = TensorOverlap::kBackward;
  zero::ZeroSettings zero = {.stage = zero::ZeroStage::kNone};
  std::optional<std::size_t> node_size;  ///< of hybrid sharding
  memory::RecomputeConfig recompute;
  std::size_t micro_batch = 1;  ///< of a replica; options.micro_batch is for one rank
  train::TrainOptions options;

  [[nodiscard]] TensorParallelLayout layout() const {
    return {.tp = mesh.tp, .sequence_parallel = sequence_parallel};
  }
  [[nodiscard]] std::string str() const {
    const nn::ModelConfig& m = options.model;
    return fmt::format(
        "dp {} tp {} sp {} overlap {} {}{}, L {} h {} a {} kv {} f {} V {} s {} {}, micro-batch {} "
        "of "
        "{}, clip {}, recompute {}",
        mesh.dp, mesh.tp, sequence_parallel == SequenceParallel::kOn ? "on" : "off",
        to_string(overlap), zero::name_of(zero.stage),
        node_size ? fmt::format(" in nodes of {}", *node_size) : "", m.num_layers, m.hidden_size,
        m.num_heads, m.num_kv_heads, m.ffn_hidden_size, m.vocab_size, m.max_seq_len,
        to_string(options.dtype), micro_batch, options.global_batch, options.clip_norm,
        to_string(recompute.mode));
  }
};

/// @brief The algorithms of the executable.
inline RankOptions mesh_options(Progress progress = Progress::kThread) {
  RankOptions options;
  options.timeout = std::chrono::seconds(100);  // a hang would be one
  options.progress = progress;
  options.algorithms = zero::ZeroOptions().algorithms({});
  return options;
}

/// @brief What a rank of a mesh had at the end.
struct SplitRun : RankRun {                 // its weights: the whole ones, put together
  std::vector<std::vector<double>> copies;  ///< parameters of which other ranks of tp hold copies
  std::vector<double> padding;              ///< of the rank's shards
  std::vector<double> coverage;             ///< how often each element of all weights was put in
};

/// @brief Puts the pieces of all ranks together when the training ends.
class WatchedWorker : public train::Worker {
 public:
  WatchedWorker(std::unique_ptr<train::Worker> worker, std::unique_ptr<zero::TrainingState> state,
                const Communicator& world, SplitRun& run)
      : worker_(std::move(worker)), state_(std::move(state)), world_(world), run_(run) {}

  train::StepOutcome step(const train::StepPlan& plan) override { return worker_->step(plan); }
  std::size_t parameter_count() const override { return worker_->parameter_count(); }
  void conclude(std::vector<train::StepMetrics>& steps) override {
    worker_->conclude(steps);
    const auto& parameters = state_->parameters();
    for (const zero::NamedShape& parameter : parameters) {
      run_.weights.emplace_back(parameter.shape.numel(), 0.0);
    }
    std::vector<std::vector<double>> times = run_.weights;
    for (std::size_t i = 0; i < state_->pieces().size(); ++i) {
      const zero::OwnedPiece& piece = state_->pieces()[i];
      const std::vector<double> values = state_->copy(i).weights.to_vector();
      if (piece.parameter->copies().count > 1) run_.copies.push_back(values);
      const std::size_t own = piece.parameter->own_count();
      for (std::size_t e = std::max(own, piece.elements.begin); e < piece.elements.end; ++e) {
        run_.padding.push_back(values[e - piece.elements.begin]);
      }
      if (!state_->saves(i)) continue;
      const auto found =
          std::ranges::find(parameters, piece.parameter->name(), &zero::NamedShape::name);
      const auto number = static_cast<std::size_t>(found - parameters.begin());
      for (const checkpoint::ElementRun& run : zero::runs_of(piece)) {
        for (std::size_t e = 0; e < run.count; ++e) {
          run_.weights[number][run.global + e] += values[run.local + e];
          times[number][run.global + e] += 1;
        }
      }
    }
    for (std::vector<double>& weight : run_.weights) weight = summed(weight);
    for (const std::vector<double>& time : times) {
      const std::vector<double> all = summed(time);
      run_.coverage.insert(run_.coverage.end(), all.begin(), all.end());
    }
  }

 private:
  /// Over all ranks; exact where the others have zeros.
  [[nodiscard]] std::vector<double> summed(const std::vector<double>& values) const {
    const Tensor sum = Tensor::from<double>(Device::cpu(), {values.size()}, values).clone();
    world_.all_reduce(sum);
    return sum.to_vector();
  }

  std::unique_ptr<train::Worker> worker_;
  std::unique_ptr<zero::TrainingState> state_;
  Communicator world_;
  SplitRun& run_;
};

/// @brief Whether weights are put together at the end, which takes messages of its own.
enum class Weights { kTogether, kLeft };

/// @brief Trains on the ranks of `world`, as many as the case's mesh has.
inline SplitRun run_split(const Communicator& world, const SplitCase& c,
                          Weights weights = Weights::kTogether) {
  nn::DenseFactory dense;
  memory::RecomputeFactory recompute(dense, c.recompute);
  const Mesh mesh(world, c.mesh);
  TensorParallelFactory factory(recompute, mesh.tp(), c.sequence_parallel, c.overlap);
  const bool shards = c.zero.stage != zero::ZeroStage::kNone;
  const int copy = !shards ? 1 : c.node_size ? static_cast<int>(*c.node_size) : c.mesh.dp;
  const auto ranks = replica_ranks(mesh, c.options.model.num_kv_heads, copy);
  SplitRun run;
  const zero::KeepState keep =
      [&](std::unique_ptr<train::Worker> worker, std::unique_ptr<zero::TrainingState> state,
          const train::RunContext& context) -> std::unique_ptr<train::Worker> {
    if (weights == Weights::kLeft) return worker;
    return std::make_unique<WatchedWorker>(std::move(worker), std::move(state), context.world, run);
  };
  if (shards) {
    run.result =
        train::train(c.options,
                     zero::zero_worker(zero::make_shard_groups(mesh.dp(), c.node_size), c.zero,
                                       {.factory = factory,
                                        .micro_batch = c.micro_batch,
                                        .adamw = ops::adamw_into,
                                        .change_passes = {},
                                        .change_update = {},
                                        .keep_state = keep,
                                        .finish_gradients = ranks.finish_gradients}),
                     {}, world);
    return run;
  }
  const train::MakeWorker make = [&](const train::RunContext& context) {
    const auto optimizer = std::make_shared<optim::AdamW>(optim::AdamWConfig{});
    auto worker = std::make_unique<train::ModelWorker>(
        context,
        train::TrainerParts{
            .factory = factory,
            .forward_backward = data_parallel::data_parallel_forward_backward(
                mesh.dp(), c.micro_batch,
                data_parallel::DataParallelOptions().make_sync(mesh.dp(), c.options.dtype)),
            .update = train::clipped_adamw(
                c.options, optimizer,
                ranks.finish_gradients ? ranks.finish_gradients : train::gradient_norm),
            .extra_config = {}});
    auto state = std::make_unique<zero::TrainingState>(
        zero::replicated_state(worker->model(), optimizer, mesh.dp()));
    return keep(std::move(worker), std::move(state), context);
  };
  run.result = train::train(c.options, make, {}, world);
  return run;
}

/// @brief Random small runs that can be split, with a watchdog.
class SplitTest : public ultra::test::RandomTest {
 protected:
  /// Heads, widths and a vocabulary for tp ranks; key/value heads may be fewer.
  nn::ModelConfig draw_model(std::size_t tp, bool splits_sequences) {
    nn::ModelConfig model;
    std::vector<std::size_t> kv_heads = {tp, 2 * tp};
    for (std::size_t n = 1; n < tp; ++n) {
      if (tp % n == 0) kv_heads.push_back(n);
    }
    model.num_kv_heads = kv_heads[random.between(0, kv_heads.size() - 1)];
    model.num_heads = std::max(tp, model.num_kv_heads) * random.between(1, 2);
    model.hidden_size = model.num_heads * 2 * random.between(1, 2);
    model.num_layers = random.between(1, 3);
    model.ffn_hidden_size = tp * random.between(1, 5);
    model.vocab_size = data::kByteVocabulary + random.between(0, 2 * tp);
    model.max_seq_len = splits_sequences ? tp * random.between(1, 3) : random.between(2, 13);
    return model;
  }

  SplitCase draw(int dp, int tp, DType dtype) {
    SplitCase c{.mesh = {.dp = dp, .tp = tp},
                .sequence_parallel = random.pick({SequenceParallel::kOff, SequenceParallel::kOn}),
                .node_size = {},
                .recompute = {},
                .options = ultra::test::random_run(random, seed, dp, dtype)};
    const bool on = c.sequence_parallel == SequenceParallel::kOn;
    c.overlap =
        on ? random.pick({TensorOverlap::kNone, TensorOverlap::kBackward, TensorOverlap::kRing})
           : random.pick({TensorOverlap::kNone, TensorOverlap::kBackward});
    c.options.model = draw_model(static_cast<std::size_t>(tp), on);
    c.micro_batch = random.between(1, 3);
    return c;
  }

  SplitCase with_zero(SplitCase c, zero::ZeroStage stage) {
    c.zero = {
        .stage = stage,
        .bucket_capacity = random.pick<std::size_t>({0, 997, 100000}),
        .overlap = random.pick({zero::Overlap::kOff, zero::Overlap::kOn}),
        .prefetch = random.between(0, 2),
        .reshard = random.pick({zero::Reshard::kAfterForward, zero::Reshard::kAfterBackward})};
    return c;
  }

  static void on_mesh(const SplitCase& c, const std::function<void(Communicator&)>& fn,
                      const RankOptions& options = mesh_options()) {
    SCOPED_TRACE(c.str());
    quietly([&] { run_ranks(c.mesh.world_size(), fn, options); });
    if (HasFailure()) std::printf("%s\n", c.str().c_str());
  }

 private:
  ultra::test::Watchdog watchdog_{std::chrono::seconds(110)};
};

/// @brief Gradient norms within a relative distance.
inline void expect_near_norms(const RankRun& actual, const RankRun& expected, double relative) {
  ASSERT_EQ(actual.result.steps.size(), expected.result.steps.size());
  for (std::size_t i = 0; i < expected.result.steps.size(); ++i) {
    const double norm = expected.result.steps[i].grad_norm;
    EXPECT_NEAR(actual.result.steps[i].grad_norm, norm, relative * norm) << "step " << i + 1;
  }
}

}  // namespace ultra::tensor_parallel::test
