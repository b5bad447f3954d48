#include "chapters/01_memory/model_presets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/nn/named_models.hpp"

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
  static const std::vector<TransformerShape> presets = [] {
    std::vector<TransformerShape> all = {gpt("gpt2-124m", 12, 768, 12, 1024),
                                         gpt("gpt3-175b", 96, 12288, 96, 2048)};
    for (const auto& [name, config] : nn::published_models()) {
      if (!config.has_closed_forms()) continue;
      TransformerShape shape = shape_of(config);
      shape.name = name;
      all.push_back(std::move(shape));
    }
    std::ranges::sort(all, {}, [](const TransformerShape& shape) {
      return shape.num_layers * shape.hidden_size * shape.hidden_size;
    });
    return all;
  }();
  return presets;
}

const TransformerShape& find_preset(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TransformerShape& preset : model_presets()) {
    if (preset.name == lower(name)) return preset;
    names.push_back(preset.name);
  }
  throw ConfigError(
      fmt::format("no model is called {}. Choose {} or {} (with --layers, --hidden, ...).",
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

TransformerShape named_or_custom(std::string_view name, const nn::ModelConfig& config) {
  return lower(name) == kCustom ? shape_of(config) : find_preset(name);
}

nn::ModelConfig config_of(const TransformerShape& shape) {
  ensure(shape.kind == BlockKind::kLlama, "a model of ours");
  return {.vocab_size = shape.vocab_size,
          .hidden_size = shape.hidden_size,
          .num_layers = shape.num_layers,
          .num_heads = shape.num_heads,
          .num_kv_heads = shape.num_kv_heads,
          .ffn_hidden_size = shape.ffn_hidden_size,
          .tied_embeddings = shape.embeddings == Embeddings::kTied};
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
