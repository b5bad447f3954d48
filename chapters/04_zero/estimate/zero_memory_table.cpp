#include "chapters/04_zero/estimate/zero_memory_table.hpp"

#include <fmt/format.h>

#include <optional>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/04_zero/estimate/trained_shares.hpp"
#include "common/base/difference.hpp"
#include "common/base/units.hpp"
#include "common/storage/storage.hpp"

namespace ultra::zero {
namespace {

/// What a category should take.
struct Prediction {
  std::string formula;               ///< in units of P and N
  std::optional<std::size_t> bytes;  ///< none: nothing is predicted
  bool at_most = false;              ///< the bytes are a bound
};

Prediction of_state(bool sharded, double per_parameter, std::size_t bytes) {
  return {.formula = fmt::format("{:.4g} P{}", per_parameter, sharded ? " / N" : ""),
          .bytes = bytes};
}

/// A history belongs to its rank as a whole.
ShardedBytes with_histories(ShardedBytes bytes, const memory::StoredFormats& formats,
                            std::size_t numbers) {
  const RankBytes histories = history_bytes(formats, numbers);
  bytes.parameters += static_cast<std::size_t>(histories.parameters);
  bytes.gradients += static_cast<std::size_t>(histories.gradients);
  bytes.optimizer += static_cast<std::size_t>(histories.optimizer);
  return bytes;
}

class Predictions {
 public:
  Predictions(const train::TrainOptions& options, const memory::StoredFormats& formats,
              const memory::RecomputeConfig& recompute, const ShardedRun& run,
              const comm::CollectiveAlgorithms& algorithms)
      : stage_(run.settings.stage),
        offload_(run.settings.offload),
        widths_(formats.states),
        bytes_(with_histories(predict_bytes(run, 0, algorithms), formats,
                              options.model.num_layers * formats.block_history())),
        activations_(memory::peak_activation_bytes(
            memory::shape_of(options.model),
            {.size = options.micro_batch, .seq_len = options.model.max_seq_len},
            formats.activations, recompute)) {}

  [[nodiscard]] Prediction of(MemoryCategory category) const {
    switch (category) {
      case MemoryCategory::kParameters:
        if (offload_.offloads_parameters())
          return {.formula = "fetched", .bytes = bytes_.parameters};
        return of_state(shards_parameters(stage_), widths_.parameters, bytes_.parameters);
      case MemoryCategory::kGradients:
        return of_state(shards_gradients(stage_), widths_.gradients, bytes_.gradients);
      case MemoryCategory::kOptimizer:
        if (offload_.what != Offload::kNone)
          return {.formula = "window", .bytes = bytes_.optimizer};
        return of_state(true, widths_.optimizer(), bytes_.optimizer);
      case MemoryCategory::kActivations:
        return {.formula = "", .bytes = activations_};
      case MemoryCategory::kCommunication:
        return {.formula = stage_ == ZeroStage::kParameters ? "units" : "buckets",
                .bytes = bytes_.buffers + bytes_.scratch,
                .at_most = true};
      case MemoryCategory::kOther:
        break;
    }
    return {};
  }

  /// What stands beside the device.
  [[nodiscard]] Prediction stored() const {
    const double width = widths_.gradients < 4 ? 4 : widths_.gradients;
    const auto states = static_cast<double>(widths_.states);
    const bool weights = offload_.offloads_parameters() || widths_.masters > 0;
    return of_state(true, (states + (weights ? 1 : 0)) * width, bytes_.stored);
  }
  [[nodiscard]] const ShardedBytes& bytes() const { return bytes_; }

 private:
  ZeroStage stage_;
  OffloadSettings offload_;
  memory::StateWidths widths_;
  ShardedBytes bytes_;
  std::size_t activations_;
};

std::string compared(const Prediction& prediction, std::size_t measured) {
  if (!prediction.bytes) return "";
  if (prediction.at_most && *prediction.bytes != measured) {
    return measured < *prediction.bytes ? "within" : "ABOVE";
  }
  return format_difference(measured, *prediction.bytes);
}

std::string row(std::string_view name, const Prediction& prediction, std::size_t measured,
                std::string_view phase) {
  const std::string bytes = prediction.bytes ? format_bytes(*prediction.bytes) : "-";
  return fmt::format("  {:<14}{:>10}{:>12}{:>12}{:>10}   {}\n", name, prediction.formula,
                     (prediction.at_most ? "<= " : "") + bytes, format_bytes(measured),
                     compared(prediction, measured), phase);
}

std::string traffic_line(std::string_view name, const train::StorageTraffic& traffic) {
  const double moved = traffic.read_seconds + traffic.write_seconds;
  if (moved <= 0) return "";
  return fmt::format(
      "  {:<14}read {} in {:.3f} s, wrote {} in {:.3f} s; waited {:.3f} s, {:.0f}%\n", name,
      format_bytes(traffic.read_bytes), traffic.read_seconds, format_bytes(traffic.written_bytes),
      traffic.write_seconds, traffic.exposed_seconds, 100.0 * traffic.exposed_seconds / moved);
}

/// What rank 0 keeps beside its device, and what moved.
std::string offload_lines(const OffloadSettings& settings, const Prediction& stored,
                          const train::OffloadUse& use) {
  if (settings.what == Offload::kNone) return "";
  const std::string where =
      settings.folder.empty() ? "in the host's memory"
                              : fmt::format("in a file, by {}", to_string(storage::file_backend()));
  const std::string first =
      row(settings.folder.empty() ? "host" : "file", stored, use.stored_bytes, where);
  return fmt::format("\n{}{}{}", first, traffic_line("optimizer", use.optimizer),
                     traffic_line("weights", use.weights));
}

std::string sent_line(const ShardedRun& run, const train::RankSummary& rank, std::size_t steps) {
  if (steps == 0) return "";
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
                                     const memory::StoredFormats& formats,
                                     const memory::RecomputeConfig& recompute,
                                     const ShardedRun& run,
                                     const comm::CollectiveAlgorithms& algorithms,
                                     const train::TrainResult& result) {
  const train::RankSummary& rank = result.ranks.front();
  const Predictions predictions(options, formats, recompute, run, algorithms);
  std::string table =
      fmt::format("\nWhere the memory of rank 0 went ({}: P = {} parameters, N = {} ranks)\n\n",
                  name_of(run.settings.stage), format_count(result.parameters), run.shards);
  table += fmt::format("  {:<14}{:>10}{:>12}{:>12}{:>10}   {}\n", "", "formula", "predicted",
                       "measured", "", "at its highest in");
  for (const MemoryCategory category : kMemoryCategories) {
    const MemoryPeak& peak = rank.memory.peak(category);
    const Prediction prediction = predictions.of(category);
    if (!prediction.bytes && peak.bytes == 0) continue;
    table += row(to_string(category), prediction, peak.bytes, peak.phase);
  }
  const MemoryPeak& total = rank.memory.peak_total();
  table += fmt::format("  {:<14}{:>10}{:>12}{:>12}{:>10}   {}\n", "total", "", "",
                       format_bytes(total.bytes), "", total.phase);
  table += offload_lines(run.settings.offload, predictions.stored(), rank.offload);
  return table + sent_line(run, rank, result.steps_made()) + node_lines(run, predictions.bytes());
}

}  // namespace ultra::zero
