#include "chapters/04_zero/zero_memory_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/01_memory/model_presets.hpp"
#include "common/base/units.hpp"

namespace ultra::zero {
namespace {

/// What a category should take.
struct Prediction {
  std::string formula;               ///< in units of P and N
  std::optional<std::size_t> bytes;  ///< none: nothing is predicted
  bool at_most = false;              ///< the bytes are a bound
};

Prediction of_state(bool sharded, std::size_t per_parameter, std::size_t bytes) {
  return {.formula = fmt::format("{} P{}", per_parameter, sharded ? " / N" : ""), .bytes = bytes};
}

class Predictions {
 public:
  Predictions(const train::TrainOptions& options, const memory::RecomputeConfig& recompute,
              const ShardedRun& run, const comm::CollectiveAlgorithms& algorithms)
      : stage_(run.settings.stage),
        width_(size_of(run.dtype)),
        bytes_(predict_bytes(run, 0, algorithms)),
        activations_(memory::peak_activation_bytes(
            memory::shape_of(options.model),
            {.size = options.micro_batch, .seq_len = options.model.max_seq_len},
            memory::precision_of(options.dtype), recompute)) {}

  [[nodiscard]] Prediction of(MemoryCategory category) const {
    switch (category) {
      case MemoryCategory::kParameters:
        return of_state(shards_parameters(stage_), width_, bytes_.parameters);
      case MemoryCategory::kGradients:
        return of_state(shards_gradients(stage_), width_, bytes_.gradients);
      case MemoryCategory::kOptimizer:
        return of_state(true, 2 * width_, bytes_.optimizer);
      case MemoryCategory::kActivations:
        return {.formula = "", .bytes = activations_};
      case MemoryCategory::kCommunication:
        return {.formula = stage_ == ZeroStage::kParameters ? "units" : "buckets",
                // The loss needs 8 bytes, when nothing else is on its way.
                .bytes = std::max(bytes_.buffers + bytes_.scratch, sizeof(double)),
                .at_most = true};
      case MemoryCategory::kOther:
        break;
    }
    return {};
  }

  [[nodiscard]] const ShardedBytes& bytes() const { return bytes_; }

 private:
  ZeroStage stage_;
  std::size_t width_;
  ShardedBytes bytes_;
  std::size_t activations_;
};

std::string compared(const Prediction& prediction, std::size_t measured) {
  if (!prediction.bytes) return "";
  if (*prediction.bytes == measured) return "exact";
  if (prediction.at_most) return measured < *prediction.bytes ? "within" : "ABOVE";
  const double predicted = static_cast<double>(*prediction.bytes);
  return fmt::format("{:+.2f}%", 100.0 * (static_cast<double>(measured) - predicted) / predicted);
}

std::string sent_line(const ShardedRun& run, const train::RankSummary& rank, std::size_t steps) {
  const SentBytes predicted = predict_sent(run, rank.rank);
  std::size_t sent = 0;
  for (const OpKind kind : {OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kAllToAll}) {
    sent += rank.communication[kind].sent_bytes;
  }
  return fmt::format("\n  Gradients and weights sent in a step: {} predicted, {} measured.\n",
                     format_bytes(predicted.total), format_bytes(sent / steps));
}

/// What the ranks of a node send to other nodes, and keep of units that were gathered.
std::string node_lines(const ShardedRun& run, const ShardedBytes& bytes) {
  const std::optional<std::size_t> node_size = run.settings.plus_plus.node_size;
  if (!node_size) return "";
  std::size_t between = 0;
  for (std::size_t rank = 0; rank < *node_size; ++rank) {
    between += predict_sent(run, static_cast<int>(rank)).between;
  }
  std::string lines =
      fmt::format("  Of those, the {} ranks of a node send {} to other nodes, with rings.\n",
                  *node_size, format_bytes(between));
  if (bytes.secondary > 0) {
    lines += fmt::format("  Of the parameters, {} are 1/{} of each unit for the backward pass.\n",
                         format_bytes(bytes.secondary), *node_size);
  }
  return lines;
}

}  // namespace

std::string format_zero_memory_table(const train::TrainOptions& options,
                                     const memory::RecomputeConfig& recompute,
                                     const ShardedRun& run,
                                     const comm::CollectiveAlgorithms& algorithms,
                                     const train::TrainResult& result) {
  const train::RankSummary& rank = result.ranks.front();
  const Predictions predictions(options, recompute, run, algorithms);
  std::string table =
      fmt::format("\nWhere the memory of rank 0 went ({}: P = {} parameters, N = {} ranks)\n\n",
                  name_of(run.settings.stage), format_count(result.parameters), run.shards);
  table += fmt::format("  {:<14}{:>10}{:>12}{:>12}{:>10}   {}\n", "", "formula", "predicted",
                       "measured", "", "at its highest in");
  for (const MemoryCategory category : kMemoryCategories) {
    const MemoryPeak& peak = rank.memory.peak(category);
    const Prediction prediction = predictions.of(category);
    if (!prediction.bytes && peak.bytes == 0) continue;
    const std::string bytes = prediction.bytes ? format_bytes(*prediction.bytes) : "-";
    table += fmt::format("  {:<14}{:>10}{:>12}{:>12}{:>10}   {}\n", to_string(category),
                         prediction.formula, (prediction.at_most ? "<= " : "") + bytes,
                         format_bytes(peak.bytes), compared(prediction, peak.bytes), peak.phase);
  }
  const MemoryPeak& total = rank.memory.peak_total();
  table += fmt::format("  {:<14}{:>10}{:>12}{:>12}{:>10}   {}\n", "total", "", "",
                       format_bytes(total.bytes), "", total.phase);
  return table + sent_line(run, rank, result.steps.size()) + node_lines(run, predictions.bytes());
}

}  // namespace ultra::zero
