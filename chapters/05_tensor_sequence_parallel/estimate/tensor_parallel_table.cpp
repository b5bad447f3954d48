#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "chapters/04_zero/estimate/trained_shares.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "common/base/difference.hpp"
#include "common/base/units.hpp"

namespace ultra::tensor_parallel {
namespace {

std::size_t rounded(double bytes) { return static_cast<std::size_t>(std::llround(bytes)); }

PredictedBytes predictions(const train::Setup& setup, const TensorParallelLayout& layout,
                           std::size_t largest_micro_batch) {
  const memory::TransformerShape shape = memory::shape_of(setup.train.model);
  const memory::StoredFormats formats = memory::formats_of(setup);
  return predicted_bytes(
      zero::trained_bytes_per_rank(formats,
                                   zero::zero_of(setup).options().sharding(setup.data_ranks()),
                                   parameter_count(shape, layout), shape.num_layers),
      peak_activation_bytes(shape,
                            {.size = largest_micro_batch, .seq_len = setup.train.model.max_seq_len},
                            formats.activations, memory::options_of(setup).recompute, layout));
}

/// "4 L + 2 = 18 all-reduces".
std::string exchanges_text(const TensorStep& step) {
  const std::size_t layers = step.model.num_layers;
  const auto times = [&](std::size_t blocks) {
    return activation_exchanges(blocks, step.layout, step.block_forwards);
  };
  const auto text = [&](std::size_t ActivationExchanges::*kind, std::string_view what) {
    const std::size_t outside = times(0).*kind;
    return fmt::format("{} L + {} = {} {}", times(1).*kind - outside, outside, times(layers).*kind,
                       what);
  };
  if (!step.layout.splits_sequences()) {
    return text(&ActivationExchanges::all_reduces, "all-reduces");
  }
  return text(&ActivationExchanges::all_gathers, "all-gathers") + " and " +
         text(&ActivationExchanges::reduce_scatters, "reduce-scatters");
}

}  // namespace

PredictedBytes predicted_bytes(const zero::RankBytes& states, std::size_t activations) {
  return [=](MemoryCategory category) -> std::optional<std::size_t> {
    switch (category) {
      case MemoryCategory::kParameters:
        return rounded(states.parameters);
      case MemoryCategory::kGradients:
        return rounded(states.gradients);
      case MemoryCategory::kOptimizer:
        return rounded(states.optimizer);
      case MemoryCategory::kActivations:
        return activations;
      case MemoryCategory::kCommunication:
      case MemoryCategory::kOther:
        break;
    }
    return {};
  };
}

std::string memory_columns(const PredictedBytes& predicted_of, const train::RankSummary& rank) {
  std::string rows = fmt::format("  {:<14}{:>12}{:>12}{:>10}   {}\n", "", "predicted", "measured",
                                 "", "at its highest in");
  for (const MemoryCategory category : kMemoryCategories) {
    const MemoryPeak& peak = rank.memory.peak(category);
    const std::optional<std::size_t> predicted = predicted_of(category);
    if (!predicted && peak.bytes == 0) continue;
    rows += fmt::format("  {:<14}{:>12}{:>12}{:>10}   {}\n", to_string(category),
                        predicted ? format_bytes(*predicted) : "-", format_bytes(peak.bytes),
                        predicted ? format_difference(peak.bytes, *predicted) : "", peak.phase);
  }
  const MemoryPeak& total = rank.memory.peak_total();
  return rows + fmt::format("  {:<14}{:>12}{:>12}{:>10}   {}\n", "total", "",
                            format_bytes(total.bytes), "", total.phase);
}

TensorStep step_of(const train::Setup& setup, const TensorParallelOptions& options,
                   std::span<const std::size_t> micro_batches) {
  const bool again = memory::options_of(setup).recompute.mode == memory::Recompute::kFull;
  return {.model = setup.train.model,
          .layout = options.layout(),
          .overlap = options.overlap,
          .dtype = setup.train.formats().compute,
          .micro_batches = micro_batches,
          .block_forwards = again ? 2U : 1U};
}

std::string format_tensor_parallel_table(const train::Setup& setup,
                                         const TensorParallelOptions& options,
                                         const train::TrainResult& result) {
  const std::vector<std::size_t> micro_batches =
      data_parallel::micro_batch_sizes(setup.train, static_cast<std::size_t>(setup.replicas()));
  const TensorStep step = step_of(setup, options, micro_batches);
  const std::size_t largest = micro_batches.front();
  std::string table = fmt::format(
      "\nWhere the memory of rank 0 went (tp {}, sequence parallelism {}, micro-batch {} x {} "
      "tokens)\n\n",
      options.tp, step.layout.splits_sequences() ? "on" : "off", largest, step.model.max_seq_len);
  table += memory_columns(predictions(setup, step.layout, largest), result.ranks.front());
  table += fmt::format(
      "\n  Activations travel in {} of {} elements per micro-batch of {}.\n", exchanges_text(step),
      format_count(largest * step.model.max_seq_len * step.model.hidden_size), largest);
  const TensorTraffic traffic = tensor_traffic(step);
  table += fmt::format("  The {} ranks of a replica send {} to each other in a step, predicted",
                       options.tp, format_bytes(traffic.total()));
  if (setup.replicas() > 1) return table + ".\n";
  std::size_t sent = 0;
  for (const train::RankSummary& rank : result.ranks) sent += rank.communication.sent_bytes();
  return table + fmt::format(";\n  measured: {}.\n", format_bytes(sent / result.steps_made()));
}

}  // namespace ultra::tensor_parallel
