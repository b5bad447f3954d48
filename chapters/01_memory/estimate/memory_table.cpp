#include "chapters/01_memory/estimate/memory_table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory_estimate.hpp"
#include "common/base/difference.hpp"
#include "common/base/units.hpp"

namespace ultra::memory {
namespace {

/// Closed form of a category; none for communication and for what operations borrow for a moment.
std::optional<std::size_t> predict(MemoryCategory category, const train::TrainOptions& options,
                                   const StoredFormats& formats, const RecomputeConfig& recompute) {
  const TransformerShape shape = shape_of(options.model);
  const std::size_t history = shape.num_layers * formats.block_history();
  const auto all = [&](double bytes, std::size_t of_history) {
    return of_history * history + static_cast<std::size_t>(std::llround(
                                      bytes * static_cast<double>(parameter_count(shape))));
  };
  const MicroBatch batch{.size = options.micro_batch, .seq_len = options.model.max_seq_len};
  switch (category) {
    case MemoryCategory::kParameters:
      return all(formats.states.parameters, sizeof(float));
    case MemoryCategory::kGradients:
      return all(formats.states.gradients, sizeof(float));
    case MemoryCategory::kOptimizer:
      return all(formats.states.optimizer, 2 * sizeof(float));
    case MemoryCategory::kActivations:
      return peak_activation_bytes(shape, batch, formats.activations, recompute);
    case MemoryCategory::kCommunication:
    case MemoryCategory::kOther:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::string format_memory_table(const train::TrainOptions& options, const StoredFormats& formats,
                                const RecomputeConfig& recompute,
                                const train::TrainResult& result) {
  const train::RankSummary& rank = result.ranks.front();
  std::string table = fmt::format(
      "\nWhere the memory went ({} parameters, micro-batch {} x {} "
      "tokens, recompute {})\n\n",
      format_count(result.parameters), options.micro_batch, options.model.max_seq_len,
      to_string(recompute.mode));
  const MemoryUsage& usage = rank.memory.usage_at_peak();
  const MemoryPeak& total = rank.memory.peak_total();
  table += fmt::format("  {:<14}{:>12}{:>12}{:>10}{:>12}   {}\n", "", "predicted", "measured", "",
                       "at the peak", "at its highest in");
  for (const MemoryCategory category : kMemoryCategories) {
    const MemoryPeak& peak = rank.memory.peak(category);
    const auto predicted = predict(category, options, formats, recompute);
    if (!predicted && peak.bytes == 0) continue;
    table += fmt::format("  {:<14}{:>12}{:>12}{:>10}{:>12}   {}\n", to_string(category),
                         predicted ? format_bytes(*predicted) : "-", format_bytes(peak.bytes),
                         predicted ? format_difference(peak.bytes, *predicted) : "",
                         format_bytes(usage[category]), peak.phase);
  }
  table += fmt::format("  {:<14}{:>12}{:>12}{:>10}{:>12}   {}\n", "total", "", "", "",
                       format_bytes(total.bytes), total.phase);
  table += fmt::format("\n  The pool holds {} from the system, taken in {} requests.\n",
                       format_bytes(rank.reserved_bytes), rank.system_allocations);
  table += "  other: the inputs, the rotary table, and what operations borrow for a moment.\n";
  return table;
}

}  // namespace ultra::memory
