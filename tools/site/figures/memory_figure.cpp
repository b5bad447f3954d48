// The memory of a training step, by chapter 01's closed forms.
#include <fmt/format.h>

#include <utility>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/01_memory/model_presets.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/numeric.hpp"
#include "common/nn/model_config.hpp"
#include "tools/site/figures/figure.hpp"

namespace ultra::site {
namespace {

using namespace memory;

/// What the figure is asked for.
struct MemoryQuestion {
  TransformerShape shape;
  BatchShape batch;
  NumberFormats precision;
  RecomputeConfig recompute;
};

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

void expect_dimensions(const TransformerShape& shape) {
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

void expect_memory(const MemoryQuestion& question) {
  const auto& [shape, batch, precision, recompute] = question;
  expect_dimensions(shape);
  recompute.validate();
  if (batch.size == 0) throw ConfigError("--micro-batch is 0. It must be at least 1.");
  if (batch.seq_len == 0) throw ConfigError("--seq is 0. It must be at least 1.");
  if (shape.num_positions != 0 && batch.seq_len > shape.num_positions) {
    throw ConfigError(fmt::format("--seq {} is longer than the {} learned positions of {}.",
                                  batch.seq_len, shape.num_positions, shape.name));
  }
  if (bytes_upper_bound(shape, batch) > kLargestBytes) {
    throw ConfigError(
        "this takes more than 1e18 bytes. Choose smaller dimensions, --seq or --micro-batch.");
  }
}

Json memory_of(const MemoryQuestion& question) {
  const auto& [shape, batch, precision, recompute] = question;
  expect_memory(question);
  const std::size_t count = parameter_count(shape);
  const StateBytes per = bytes_per_parameter(precision);
  const std::size_t per_layer = block_activation_bytes(shape, batch, precision, recompute.mode);
  const std::size_t keepers = recompute.mode == Recompute::kFull
                                  ? ceil_div(shape.num_layers, recompute.recompute_every)
                                  : shape.num_layers;
  const OutsideBytes outside = outside_activation_bytes(shape, batch, precision);
  const std::size_t peak = peak_activation_bytes(shape, batch, precision, recompute);
  const std::size_t total = count * per.total() + peak;
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
      {"parameters", count},
      {"bytes",
       {{"parameters", count * per.parameters},
        {"gradients", count * per.gradients},
        {"optimizer", count * per.optimizer},
        {"activations", peak},
        {"total", total}}},
      {"activation_bytes",
       {{"per_layer", per_layer},
        {"kept_by_layers", keepers * per_layer},
        {"recomputed_layer", block_activation_bytes(shape, batch, precision, Recompute::kNone)},
        {"embedding", outside.embedding},
        {"head", outside.head},
        {"peak", peak}}},
      {"fits_80gb_gpu", total <= kGpuBytes},
      {"min_80gb_gpus", ceil_div(total, kGpuBytes)},
  };
}

nn::ModelConfig model_of(const Json& question) {
  const nn::ModelConfig defaults;
  const auto number = [&](const char* name, std::size_t otherwise) {
    return value_of<std::size_t>(question, name, otherwise);
  };
  return {.vocab_size = number("vocab", defaults.vocab_size),
          .hidden_size = number("hidden", defaults.hidden_size),
          .num_layers = number("layers", defaults.num_layers),
          .num_heads = number("heads", defaults.num_heads),
          .num_kv_heads = number("kv_heads", defaults.num_kv_heads),
          .ffn_hidden_size = number("ffn", defaults.ffn_hidden_size)};
}

/// The models that have a name, and that of all others.
Json menu() {
  Json names = Json::array();
  for (const TransformerShape& shape : model_presets()) names.push_back(shape.name);
  names.push_back("custom");
  return {{"models", std::move(names)}};
}

}  // namespace

Json answer(const Json& question) {
  if (value_of<bool>(question, "menu", false)) return menu();
  const auto text = [&](const char* name, const char* otherwise) {
    return value_of<std::string>(question, name, otherwise);
  };
  return memory_of(
      {.shape = named_or_custom(text("model", "llama-8b"), model_of(question)),
       .batch = {.size = value_of<std::size_t>(question, "micro_batch", 1),
                 .seq_len = value_of<std::size_t>(question, "seq", 4096)},
       .precision = parse_precision(text("precision", "bf16-mixed")),
       .recompute = {.mode = parse_recompute(text("recompute", "none")),
                     .recompute_every = value_of<std::size_t>(question, "recompute_every", 1)}});
}

}  // namespace ultra::site
