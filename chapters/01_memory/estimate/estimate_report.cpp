#include "chapters/01_memory/estimate/estimate_report.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"

namespace ultra::memory {
namespace {

/// Bytes above this do not fit the integers of the closed forms with room to spare.
constexpr double kLargestBytes = 1e18;

double real(std::size_t value) { return static_cast<double>(value); }

/// More than the model's states and activations can be, without overflow.
double bytes_upper_bound(const TransformerShape& shape, const BatchShape& batch) {
  const double width = real(shape.hidden_size) + real(shape.ffn_hidden_size);
  const double tokens = real(batch.size) * real(batch.seq_len);
  const double tables = 2.0 * real(shape.vocab_size) + real(shape.num_positions);
  const double parameters = width * (tables + 12.0 * real(shape.num_layers) * (width + 1.0));
  const double per_token = 10.0 * width + real(shape.num_heads) * (2.0 + 3.0 * real(batch.seq_len));
  const double activations =
      tokens * (real(shape.num_layers) * per_token + 3.0 * width + 2.0 * real(shape.vocab_size));
  return 32.0 * parameters + 8.0 * activations;
}

void check_dimensions(const TransformerShape& shape) {
  const std::pair<std::size_t, const char*> positive[] = {
      {shape.num_layers, "layers"},   {shape.hidden_size, "hidden"},
      {shape.num_heads, "heads"},     {shape.num_kv_heads, "kv-heads"},
      {shape.ffn_hidden_size, "ffn"}, {shape.vocab_size, "vocab"}};
  for (const auto& [value, flag] : positive) {
    if (value == 0) throw ConfigError(fmt::format("--{} is 0. It must be at least 1.", flag));
  }
  if (shape.hidden_size % shape.num_heads != 0) {
    throw ConfigError(fmt::format("--heads must divide --hidden: {} % {} = {}.", shape.hidden_size,
                                  shape.num_heads, shape.hidden_size % shape.num_heads));
  }
  if (shape.num_heads % shape.num_kv_heads != 0) {
    throw ConfigError(fmt::format("--kv-heads must divide --heads: {} % {} = {}.", shape.num_heads,
                                  shape.num_kv_heads, shape.num_heads % shape.num_kv_heads));
  }
  if (shape.kind == BlockKind::kGpt && shape.num_kv_heads != shape.num_heads) {
    throw ConfigError(
        fmt::format("a GPT block has one key/value head per query head: found {} for {} heads.",
                    shape.num_kv_heads, shape.num_heads));
  }
}

/// A decimal unit and its binary neighbour, for one table.
struct Units {
  double decimal, binary;
  const char *decimal_name, *binary_name;
};

/// GB and GiB, or MB and MiB where GB would print little but zeros.
Units units_for(std::size_t total) {
  if (total < 10'000'000'000) return {1e6, 1048576.0, "MB", "MiB"};
  return {1e9, 1073741824.0, "GB", "GiB"};
}

/// Adds rows "name, bytes in both units, note" to the table.
class Rows {
 public:
  Rows(std::string& table, const Units& units) : table_(table), units_(units) {}

  void add(const std::string& name, std::size_t bytes, const std::string& note = "") {
    fmt::format_to(std::back_inserter(table_), "  {:<34}{:>13.2f} {}{:>13.2f} {}{}{}\n", name,
                   real(bytes) / units_.decimal, units_.decimal_name, real(bytes) / units_.binary,
                   units_.binary_name, note.empty() ? "" : "   ", note);
  }

 private:
  std::string& table_;
  Units units_;
};

std::string per_parameter(std::size_t bytes) { return fmt::format("{} B per parameter", bytes); }

/// How many tensors "kept_by_blocks" is made of, in words.
std::string kept_note(const EstimateRequest& request) {
  const std::size_t layers = request.shape.num_layers;
  if (request.recompute.mode != Recompute::kFull) return fmt::format("{} layers", layers);
  const std::size_t every = request.recompute.recompute_every;
  return fmt::format("{} inputs, one per {} layer{}", ceil_div(layers, every), every,
                     every == 1 ? "" : "s");
}

std::string verdict(const MemoryEstimate& estimate) {
  if (estimate.min_gpus() == 1) return "Fits on one 80 GB GPU: yes.";
  return fmt::format(
      "Fits on one 80 GB GPU: no. At least {} GPUs, if everything is split without waste.",
      format_count(estimate.min_gpus()));
}

std::string heading(const EstimateRequest& request) {
  const TransformerShape& s = request.shape;
  std::string recompute{to_string(request.recompute.mode)};
  if (request.recompute.mode == Recompute::kFull) {
    recompute += fmt::format(", every {}", request.recompute.recompute_every);
  }
  return fmt::format(
      "Memory estimate: {}\n"
      "  {} layers, hidden {}, {} heads ({} key/value), ffn {}, vocab {}, {} embeddings\n"
      "  {} sequence{} of {} tokens per micro-batch, {}, recomputation: {}\n\n",
      s.name, s.num_layers, s.hidden_size, s.num_heads, s.num_kv_heads, s.ffn_hidden_size,
      s.vocab_size, s.embeddings == Embeddings::kTied ? "tied" : "untied", request.batch.size,
      request.batch.size == 1 ? "" : "s", request.batch.seq_len, to_string(request.precision),
      recompute);
}

}  // namespace

void EstimateRequest::validate() const {
  check_dimensions(shape);
  recompute.validate();
  if (batch.size == 0) throw ConfigError("--micro-batch is 0. It must be at least 1.");
  if (batch.seq_len == 0) throw ConfigError("--seq is 0. It must be at least 1.");
  if (shape.num_positions != 0 && batch.seq_len > shape.num_positions) {
    throw ConfigError(fmt::format("--seq {} is longer than the {} learned positions of {}.",
                                  batch.seq_len, shape.num_positions, shape.name));
  }
  if (bytes_upper_bound(shape, batch) > kLargestBytes) {
    throw ConfigError(
        "--estimate: this takes more than 1e18 bytes. Choose smaller dimensions, --seq or "
        "--micro-batch.");
  }
}

std::size_t MemoryEstimate::min_gpus() const { return ceil_div(total(), kGpuBytes); }

MemoryEstimate estimate_memory(const EstimateRequest& request) {
  request.validate();
  const auto& [shape, batch, precision, recompute] = request;
  const std::size_t count = parameter_count(shape);
  const StateBytes per = bytes_per_parameter(precision);
  const std::size_t per_layer = block_activation_bytes(shape, batch, precision, recompute.mode);
  const std::size_t keepers = recompute.mode == Recompute::kFull
                                  ? ceil_div(shape.num_layers, recompute.recompute_every)
                                  : shape.num_layers;
  return {.request = request,
          .parameter_count = count,
          .states = {.parameters = count * per.parameters,
                     .gradients = count * per.gradients,
                     .optimizer = count * per.optimizer},
          .activations_per_layer = per_layer,
          .kept_by_blocks = keepers * per_layer,
          .recomputed_layer = block_activation_bytes(shape, batch, precision, Recompute::kNone),
          .outside = outside_activation_bytes(shape, batch, precision),
          .peak_activations = peak_activation_bytes(shape, batch, precision, recompute)};
}

std::string format_estimate(const MemoryEstimate& estimate) {
  const EstimateRequest& request = estimate.request;
  const StateBytes per = bytes_per_parameter(request.precision);
  std::string table = heading(request);
  fmt::format_to(std::back_inserter(table), "  {:<34}{:>16}\n", "number of parameters",
                 format_count(estimate.parameter_count));
  Rows rows(table, units_for(estimate.total()));
  rows.add("parameters", estimate.states.parameters, per_parameter(per.parameters));
  rows.add("gradients", estimate.states.gradients, per_parameter(per.gradients));
  rows.add("optimizer states", estimate.states.optimizer, per_parameter(per.optimizer));
  rows.add("activations, highest in the step", estimate.peak_activations);
  rows.add(
      request.recompute.mode == Recompute::kFull ? "  one layer's input" : "  kept by one layer",
      estimate.activations_per_layer);
  rows.add("  kept by all layers", estimate.kept_by_blocks, kept_note(request));
  rows.add("  kept by embedding and head", estimate.outside.embedding + estimate.outside.head);
  if (request.recompute.mode != Recompute::kNone) {
    rows.add("  one layer, recomputed", estimate.recomputed_layer);
  }
  rows.add("total", estimate.total());
  return table + "\n" + verdict(estimate) +
         "\nNot counted: temporary results, communication buffers, fragmentation, the CUDA context "
         "(1 to 2 GB).\n";
}

Json estimate_to_json(const MemoryEstimate& estimate) {
  const auto& [shape, batch, precision, recompute] = estimate.request;
  return {
      {"model",
       {{"name", shape.name},
        {"block", shape.kind == BlockKind::kGpt ? "gpt" : "llama"},
        {"layers", shape.num_layers},
        {"hidden", shape.hidden_size},
        {"heads", shape.num_heads},
        {"kv_heads", shape.num_kv_heads},
        {"ffn", shape.ffn_hidden_size},
        {"vocab", shape.vocab_size},
        {"positions", shape.num_positions},
        {"tied_embeddings", shape.embeddings == Embeddings::kTied}}},
      {"seq", batch.seq_len},
      {"micro_batch", batch.size},
      {"precision", to_string(precision)},
      {"recompute", to_string(recompute.mode)},
      {"recompute_every", recompute.recompute_every},
      {"parameters", estimate.parameter_count},
      {"bytes",
       {{"parameters", estimate.states.parameters},
        {"gradients", estimate.states.gradients},
        {"optimizer", estimate.states.optimizer},
        {"activations", estimate.peak_activations},
        {"total", estimate.total()}}},
      {"activation_bytes",
       {{"per_layer", estimate.activations_per_layer},
        {"kept_by_layers", estimate.kept_by_blocks},
        {"recomputed_layer", estimate.recomputed_layer},
        {"embedding", estimate.outside.embedding},
        {"head", estimate.outside.head},
        {"peak", estimate.peak_activations}}},
      {"fits_80gb_gpu", estimate.min_gpus() == 1},
      {"min_80gb_gpus", estimate.min_gpus()},
  };
}

}  // namespace ultra::memory
