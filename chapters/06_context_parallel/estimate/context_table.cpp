#include "chapters/06_context_parallel/estimate/context_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "chapters/04_zero/estimate/trained_shares.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_table.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "common/base/units.hpp"

namespace ultra::context_parallel {
namespace {

tensor_parallel::TensorParallelLayout tensor_layout(const train::Setup& setup) {
  const auto* tensor = setup.find<tensor_parallel::TensorParallel>();
  return tensor ? tensor->options().layout() : tensor_parallel::TensorParallelLayout{};
}

tensor_parallel::PredictedBytes predictions(const train::Setup& setup, const LocalModel& share,
                                            std::size_t sequences) {
  const auto shape = memory::shape_of(setup.train.model);
  const memory::StoredFormats formats = memory::formats_of(setup);
  return tensor_parallel::predicted_bytes(
      zero::trained_bytes_per_rank(
          formats, zero::zero_of(setup).options().sharding(setup.data_ranks()),
          tensor_parallel::parameter_count(shape, share.tensor), shape.num_layers),
      peak_activation_bytes(shape, sequences, formats.activations,
                            memory::options_of(setup).recompute, share));
}

double flops_of(const train::RankSummary& rank) {
  const auto& sums = rank.counters.sums();
  const auto found = sums.find(kAttentionFlops);
  return found == sums.end() ? 0 : found->second;
}

/// What the ranks of a run computed: the most, relative to the average.
std::string balance_line(const train::TrainResult& result) {
  double sum = 0;
  double most = 0;
  for (const train::RankSummary& rank : result.ranks) {
    sum += flops_of(rank);
    most = std::max(most, flops_of(rank));
  }
  const double average = sum / static_cast<double>(result.ranks.size());
  return fmt::format(
      "  Attention took {:.4g} floating-point operations per rank and step; the busiest rank "
      "{:.2f} times that.\n",
      average / static_cast<double>(result.steps_made()), average > 0 ? most / average : 1.0);
}

}  // namespace

LocalModel share_of(const train::Setup& setup, const ContextParallelOptions& options) {
  return {.layout = layout_of(setup, options),
          .choice = options.choice(),
          .tensor = tensor_layout(setup)};
}

ContextStep step_of(const train::Setup& setup, const ContextParallelOptions& options,
                    std::span<const std::size_t> micro_batches) {
  const bool again = memory::options_of(setup).recompute.mode == memory::Recompute::kFull;
  return {.model = setup.train.model,
          .layout = layout_of(setup, options),
          .choice = options.choice(),
          .tp = setup.ranks_along(tensor_parallel::kAxis),
          .dtype = setup.train.formats().compute,
          .micro_batches = micro_batches,
          .block_forwards = again ? 2U : 1U};
}

std::string format_context_table(const train::Setup& setup, const ContextParallelOptions& options,
                                 const train::TrainResult& result) {
  const std::vector<std::size_t> micro_batches =
      data_parallel::micro_batch_sizes(setup.train, static_cast<std::size_t>(setup.replicas()));
  const ContextStep step = step_of(setup, options, micro_batches);
  const std::size_t largest = micro_batches.front();
  const ContextLayout& layout = step.layout;
  std::string table = fmt::format(
      "\nWhere the memory of rank 0 went (cp {}, {}, {}; micro-batch {} x {} of {} tokens)\n\n",
      options.cp, to_string(options.layout), to_string(options.method), largest,
      layout.local_seq_len(), layout.seq_len);
  table += tensor_parallel::memory_columns(predictions(setup, share_of(setup, options), largest),
                                           result.ranks.front());
  if (layout.padded_len() > layout.seq_len) {
    table += fmt::format("\n  {} tokens of padding make each sequence {} chunks of {} tokens.",
                         layout.padded_len() - layout.seq_len,
                         layout.ranks() * layout.chunks_per_rank(), layout.chunk_len());
  }
  table += fmt::format("\n  A rank sends {} for attention in a step, predicted.\n",
                       format_bytes(context_traffic(step).total()));
  return table + balance_line(result);
}

}  // namespace ultra::context_parallel
