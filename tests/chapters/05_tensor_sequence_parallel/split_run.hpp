#pragma once
/// @file
/// Training runs on a mesh dp x tp, as the program makes them, and the runs that they must equal.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "tests/chapters/03_data_parallel/mesh_run.hpp"

namespace ultra::tensor_parallel::test {

using collectives::test::expect_near_losses;
using collectives::test::expect_near_weights;
using collectives::test::losses_and_norms;
using collectives::test::run_alone;
using train::test::expect_same_on_all;
using ultra::test::RankRun;

/// @brief A run on a mesh.
struct SplitCase {
  int dp = 1;
  int tp = 1;
  SequenceParallel sequence_parallel = SequenceParallel::kOff;
  TensorOverlap overlap = TensorOverlap::kBackward;
  memory::Recompute recompute = memory::Recompute::kNone;
  std::string zero = {};        ///< chapter 04's flags, and chapter 03's
  std::size_t micro_batch = 1;  ///< of a replica; options.micro_batch is for one rank
  train::TrainOptions options = {};

  [[nodiscard]] TensorParallelLayout layout() const {
    return {.tp = tp, .sequence_parallel = sequence_parallel};
  }
  [[nodiscard]] int ranks() const { return dp * tp; }
  [[nodiscard]] std::string flags() const {
    std::string all =
        fmt::format("--dp {} --tp {} --recompute {} {}", dp, tp, to_string(recompute), zero);
    if (tp == 1) return all;  // alone it has nothing to share
    return fmt::format("{} --sp {} --tp-overlap {}", all,
                       sequence_parallel == SequenceParallel::kOn ? "on" : "off",
                       to_string(overlap));
  }
  [[nodiscard]] std::string str() const {
    const nn::ModelConfig& m = options.model;
    return fmt::format("{}, L {} h {} a {} kv {} f {} V {} s {} {}, micro-batch {} of {}, clip {}",
                       flags(), m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads,
                       m.ffn_hidden_size, m.vocab_size, m.max_seq_len, to_string(options.dtype),
                       micro_batch, options.global_batch, options.clip_norm);
  }
  /// The program's, but for micro-batches that need not divide the global batch.
  [[nodiscard]] train::Setup setup() const {
    return ultra::test::setup_of(
        options, ranks(),
        train::list_of(memory::technique(), collectives::technique(), data_parallel::technique(),
                       zero::technique(), technique(),
                       data_parallel::test::cutting_into(micro_batch)),
        flags());
  }
};

/// @brief What a rank of a mesh had at the end.
struct SplitRun : RankRun {
  std::vector<double> padding;  ///< of the rank's shards
};

/// @brief Reads what pads the vocabulary when the training ends.
class KeptPadding : public train::Technique {
 public:
  explicit KeptPadding(std::vector<double>& padding) : padding_(padding) {}

  std::unique_ptr<train::Worker> wrap_worker(std::unique_ptr<train::Worker> worker,
                                             const train::TrainerState& trainer,
                                             const train::Setup&) const override {
    return std::make_unique<Reader>(std::move(worker), trainer, padding_);
  }

 private:
  class Reader : public train::Worker {
   public:
    Reader(std::unique_ptr<train::Worker> worker, const train::TrainerState& trainer,
           std::vector<double>& padding)
        : worker_(std::move(worker)), trainer_(trainer), padding_(padding) {}

    train::StepOutcome step(const train::StepPlan& plan) override { return worker_->step(plan); }
    std::size_t skipped_steps() const override { return worker_->skipped_steps(); }
    std::size_t parameter_count() const override { return worker_->parameter_count(); }
    void conclude(std::vector<train::StepMetrics>& steps) override {
      worker_->conclude(steps);
      for (const auto& states : trainer_.states) {
        for (std::size_t i = 0; i < states->pieces().size(); ++i) read(*states, i);
      }
    }

   private:
    void read(train::ModelStates& states, std::size_t number) {
      const auto& [parameter, elements] = states.pieces()[number];
      const Tensor values = Tensor::empty(Device::cpu(), {elements.size()}, parameter->dtype());
      states.read_weights(number, values);
      const std::vector<double> all = values.to_vector();
      const std::size_t begin = std::max(parameter->own_count(), elements.begin);
      for (std::size_t e = begin; e < elements.end; ++e) {
        padding_.push_back(all[e - elements.begin]);
      }
    }

    std::unique_ptr<train::Worker> worker_;
    train::TrainerState trainer_;
    std::vector<double>& padding_;
  };

  std::vector<double>& padding_;
};

/// @brief Trains on the ranks of `world`, as many as the case's mesh has, and reads the weights.
inline SplitRun run_split(const Communicator& world, const SplitCase& c) {
  SplitRun run;
  train::Setup setup = c.setup();
  setup.techniques.push_back(std::make_unique<KeptPadding>(run.padding));
  static_cast<RankRun&>(run) = ultra::test::run_of(std::move(setup), world);
  return run;
}

/// @brief Random small runs that can be split, with a watchdog.
class SplitTest : public data_parallel::test::MeshTest {
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

  SplitCase draw(int dp, int tp, DType dtype, SequenceParallel on) {
    SplitCase c{.dp = dp,
                .tp = tp,
                .sequence_parallel = on,
                .overlap = random.pick({TensorOverlap::kNone, TensorOverlap::kBackward}),
                .micro_batch = random.between(1, 3),
                .options = ultra::test::random_run(random, seed, dp, dtype)};
    const bool splits_sequences = on == SequenceParallel::kOn;
    if (splits_sequences && random.between(0, 2) == 0) c.overlap = TensorOverlap::kRing;
    c.options.model = draw_model(static_cast<std::size_t>(tp), splits_sequences);
    return c;
  }
  SplitCase draw(int dp, int tp, DType dtype) {
    return draw(dp, tp, dtype, random.pick({SequenceParallel::kOff, SequenceParallel::kOn}));
  }

  SplitCase with_zero(SplitCase c, int stage) {
    const std::string overlap = random.pick({"none", "bucketed"});
    c.zero = fmt::format("--zero {} --overlap {}", stage, overlap);
    if (stage < 3) {
      c.zero += fmt::format(" --bucket-mb {}", random.pick({1e-6, 0.008, 0.8}));
      return c;
    }
    if (overlap != "none") c.zero += fmt::format(" --prefetch {}", random.between(0, 2));
    c.zero += fmt::format(" --reshard-after-forward {}", random.pick({"yes", "no"}));
    return c;
  }
};

}  // namespace ultra::tensor_parallel::test
