#include "chapters/07_pipeline_parallel/estimate/pipeline_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "chapters/04_zero/estimate/trained_shares.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/06_context_parallel/estimate/context_table.hpp"
#include "chapters/07_pipeline_parallel/execution/pass_recorder.hpp"
#include "chapters/07_pipeline_parallel/schedule/live_activations.hpp"
#include "common/base/difference.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"

namespace ultra::pipeline_parallel {
namespace {

constexpr std::array kShown = {MemoryCategory::kParameters, MemoryCategory::kGradients,
                               MemoryCategory::kOptimizer, MemoryCategory::kActivations};

std::size_t rounded(double bytes) { return static_cast<std::size_t>(std::llround(bytes)); }

/// The closed forms of the stages of a training.
class Predictions {
 public:
  Predictions(const train::Setup& setup, const PipelineSchedule& schedule,
              std::span<const std::size_t> layers)
      : formats_(memory::formats_of(setup)),
        model_(staged_model(setup, layers)),
        sequences_(data_parallel::micro_batch_sizes(setup.train,
                                                    static_cast<std::size_t>(setup.replicas()))),
        schedule_(schedule),
        sharding_(zero::zero_of(setup).options().sharding(setup.data_ranks())) {}

  /// Bytes of kShown.
  [[nodiscard]] std::array<std::size_t, kShown.size()> of(std::size_t stage) const {
    std::size_t parameters = 0;
    std::size_t layers = 0;
    for (std::size_t chunk = 0; chunk < schedule_.placement.chunks(); ++chunk) {
      const std::size_t part = schedule_.placement.part_at({.stage = stage, .chunk = chunk});
      parameters += part_parameters(model_, model_.parts[part]);
      layers += model_.parts[part].layers.size();
    }
    const zero::RankBytes states =
        zero::trained_bytes_per_rank(formats_, sharding_, parameters, layers);
    // Stashed weights: a version for each micro-batch under way.
    const std::size_t versions =
        train::updates_between(schedule_.ranks[stage]) ? live(stage) : std::size_t{1};
    return {versions * rounded(states.parameters), rounded(states.gradients),
            rounded(states.optimizer), peak_activation_bytes(model_, schedule_, stage, sequences_)};
  }

  [[nodiscard]] std::size_t live(std::size_t stage) const {
    return peak_live_activations(schedule_.ranks[stage]);
  }

 private:
  memory::StoredFormats formats_;
  StagedModel model_;
  std::vector<std::size_t> sequences_;
  const PipelineSchedule& schedule_;
  zero::Sharding sharding_;
};

/// The layers of each part, where they follow from the flags.
std::optional<std::vector<std::size_t>> known_layers(const train::Setup& setup,
                                                     const StageSplit& split,
                                                     const Placement& placement) {
  switch (split.rule) {
    case StageSplit::Rule::kGiven:
      return split.layers;
    case StageSplit::Rule::kBalanced:
      return balanced_layers(setup.train.model.num_layers, placement,
                             operations_of(setup.train.model));
    case StageSplit::Rule::kMeasured:
      break;
  }
  return {};
}

std::string layers_text(const Placement& placement, std::size_t stage,
                        std::span<const std::size_t> layers) {
  std::string text;
  for (std::size_t chunk = 0; chunk < placement.chunks(); ++chunk) {
    const std::size_t part = placement.part_at({.stage = stage, .chunk = chunk});
    text += fmt::format("{}{}", chunk == 0 ? "" : "+", layers[part]);
  }
  return text;
}

/// The world rank of a stage of the first pipeline.
std::size_t rank_of(const train::Setup& setup, std::size_t stage) {
  return stage * setup.ranks_along(context_parallel::kAxis) *
         setup.ranks_along(tensor_parallel::kAxis);
}

std::size_t held(const train::RankSummary& rank) {
  const auto found = rank.counters.sums().find(kPeakActivations);
  return found == rank.counters.sums().end() ? 0 : static_cast<std::size_t>(found->second);
}

std::string cell(std::size_t measured, const std::optional<std::size_t>& predicted) {
  if (!predicted) return format_bytes(measured);
  return format_bytes(measured) + " " + format_difference(measured, *predicted, 1);
}

}  // namespace

context_parallel::LocalModel rank_share(const train::Setup& setup) {
  const auto* context = setup.find<context_parallel::ContextParallel>();
  const context_parallel::ContextParallelOptions none;
  context_parallel::LocalModel share =
      context_parallel::share_of(setup, context ? context->options() : none);
  if (share.layout.cp == 1) {  // whole sequences are not padded
    share.layout.sequence = context_parallel::SequenceLayout::kContiguous;
    share.layout.multiple_of = 1;
  }
  return share;
}

StagedModel staged_model(const train::Setup& setup, std::span<const std::size_t> layers) {
  return {.shape = memory::shape_of(setup.train.model),
          .parts = parts_of_model(layers),
          .precision = memory::formats_of(setup).activations,
          .recompute = memory::options_of(setup).recompute,
          .share = rank_share(setup)};
}

std::string format_pipeline_table(const train::Setup& setup, const PipelineOptions& options,
                                  const PipelineSchedule& schedule,
                                  const train::TrainResult& result) {
  const std::optional<std::vector<std::size_t>> layers =
      known_layers(setup, options.split, schedule.placement);
  std::optional<Predictions> predictions;
  if (layers) predictions.emplace(setup, schedule, *layers);
  std::string table = fmt::format(
      "\nWhere the memory of each stage went (pp {}, {}, {} micro-batches): measured, and how far "
      "from the prediction\n\n",
      options.pp, options.schedule_name(), schedule.micro_batches);
  table += fmt::format("  {:>5}{:>8}{:>6}{:>18}{:>18}{:>18}{:>18}\n", "stage", "layers", "held",
                       "parameters", "gradients", "optimizer", "activations");
  for (std::size_t stage = 0; stage < options.pp; ++stage) {
    const train::RankSummary& rank = result.ranks.at(rank_of(setup, stage));
    table +=
        fmt::format("  {:>5}{:>8}{:>6}", stage,
                    layers ? layers_text(schedule.placement, stage, *layers) : "-", held(rank));
    std::array<std::optional<std::size_t>, kShown.size()> predicted;
    if (predictions) std::ranges::copy(predictions->of(stage), predicted.begin());
    for (std::size_t i = 0; i < kShown.size(); ++i) {
      table += fmt::format("{:>18}", cell(rank.memory.peak(kShown[i]).bytes, predicted[i]));
    }
    table += "\n";
  }
  return table + "\n  held: micro-batches times chunks whose activations a stage had at a time.\n";
}

}  // namespace ultra::pipeline_parallel
