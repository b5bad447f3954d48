#include "chapters/01_memory/estimate/model_presets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cctype>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::memory {
namespace {

constexpr std::string_view kCustom = "custom";

constexpr std::array<NumberFormats, 4> kPrecisions = {
    NumberFormats::kFp32, NumberFormats::kBf16Mixed, NumberFormats::kBf16MixedFp32Grads,
    NumberFormats::kFp64};

std::string lower(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

TransformerShape gpt(std::string name, std::size_t layers, std::size_t hidden, std::size_t heads,
                     std::size_t positions) {
  return {.name = std::move(name),
          .kind = BlockKind::kGpt,
          .num_layers = layers,
          .hidden_size = hidden,
          .num_heads = heads,
          .num_kv_heads = heads,
          .ffn_hidden_size = 4 * hidden,
          .vocab_size = 50257,
          .num_positions = positions,
          .embeddings = Embeddings::kTied};
}

}  // namespace

const std::vector<TransformerShape>& model_presets() {
  static const std::vector<TransformerShape> presets = {
      gpt("gpt2-124m", 12, 768, 12, 1024),
      {.name = "llama-1b",
       .num_layers = 16,
       .hidden_size = 2048,
       .num_heads = 32,
       .num_kv_heads = 8,
       .ffn_hidden_size = 8192,
       .vocab_size = 128256,
       .embeddings = Embeddings::kTied},
      {.name = "llama-7b",
       .num_layers = 32,
       .hidden_size = 4096,
       .num_heads = 32,
       .num_kv_heads = 32,
       .ffn_hidden_size = 11008,
       .vocab_size = 32000},
      {.name = "llama-8b",
       .num_layers = 32,
       .hidden_size = 4096,
       .num_heads = 32,
       .num_kv_heads = 8,
       .ffn_hidden_size = 14336,
       .vocab_size = 128256},
      {.name = "llama-70b",
       .num_layers = 80,
       .hidden_size = 8192,
       .num_heads = 64,
       .num_kv_heads = 8,
       .ffn_hidden_size = 28672,
       .vocab_size = 128256},
      gpt("gpt3-175b", 96, 12288, 96, 2048),
      {.name = "llama-405b",
       .num_layers = 126,
       .hidden_size = 16384,
       .num_heads = 128,
       .num_kv_heads = 8,
       .ffn_hidden_size = 53248,
       .vocab_size = 128256},
  };
  return presets;
}

const TransformerShape& find_preset(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TransformerShape& preset : model_presets()) {
    if (preset.name == lower(name)) return preset;
    names.push_back(preset.name);
  }
  throw ConfigError(fmt::format(
      "--estimate: no model is called {}. Choose {} or {} (with --layers, --hidden, ...).",
      in_quotes(name), fmt::join(names, ", "), kCustom));
}

TransformerShape shape_of(const nn::ModelConfig& config) {
  config.validate();
  return {.name = std::string(kCustom),
          .kind = BlockKind::kLlama,
          .num_layers = config.num_layers,
          .hidden_size = config.hidden_size,
          .num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .ffn_hidden_size = config.ffn_hidden_size,
          .vocab_size = config.vocab_size,
          .embeddings = config.tied_embeddings ? Embeddings::kTied : Embeddings::kUntied};
}

TransformerShape shape_for_estimate(std::string_view name, const nn::ModelConfig& config) {
  return lower(name) == kCustom ? shape_of(config) : find_preset(name);
}

NumberFormats precision_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return NumberFormats::kFp32;
    case DType::kF64:
      return NumberFormats::kFp64;
    default:
      throw ConfigError(
          fmt::format("no training runs in {}. Use --dtype f32 or f64.", ultra::to_string(dtype)));
  }
}

std::string_view to_string(NumberFormats precision) {
  switch (precision) {
    case NumberFormats::kFp64:
      return "fp64";
    case NumberFormats::kFp32:
      return "fp32";
    case NumberFormats::kBf16Mixed:
      return "bf16-mixed";
    case NumberFormats::kBf16MixedFp32Grads:
      return "bf16-mixed-fp32grads";
    case NumberFormats::kTwoBytes:
    case NumberFormats::kFp8Tensors:
    case NumberFormats::kFp8Tiles:
      return "two-bytes";
  }
  return "?";
}

NumberFormats parse_precision(std::string_view text) {
  for (const NumberFormats precision : kPrecisions) {
    if (text == to_string(precision)) return precision;
  }
  throw ConfigError(
      fmt::format("--precision {} is unknown. Use fp32, bf16-mixed, bf16-mixed-fp32grads or fp64.",
                  in_quotes(text)));
}

}  // namespace ultra::memory
