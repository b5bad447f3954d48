#include "chapters/11_five_d/planner/model/model_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "chapters/01_memory/model_presets.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/nn/initialization.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "common/train/weights/frozen_weights.hpp"

namespace ultra::planner {
namespace {

using memory::BlockKind;
using memory::Embeddings;
using memory::TransformerShape;

ModelShape megatron(std::string name, std::size_t heads, std::size_t hidden, std::size_t layers) {
  return dense_model({.name = std::move(name),
                      .kind = BlockKind::kGpt,
                      .num_layers = layers,
                      .hidden_size = hidden,
                      .num_heads = heads,
                      .num_kv_heads = heads,
                      .ffn_hidden_size = 4 * hidden,
                      .vocab_size = 51200,
                      .num_positions = 2048,
                      .embeddings = Embeddings::kTied});
}

ModelShape llama(std::string name, std::size_t layers, std::size_t hidden, std::size_t heads,
                 std::size_t kv_heads, std::size_t ffn) {
  return dense_model({.name = std::move(name),
                      .num_layers = layers,
                      .hidden_size = hidden,
                      .num_heads = heads,
                      .num_kv_heads = kv_heads,
                      .ffn_hidden_size = ffn,
                      .vocab_size = 32000});
}

ModelShape qwen(std::string name, std::size_t layers, std::size_t hidden, std::size_t heads,
                std::size_t kv_heads, std::size_t ffn) {
  ModelShape model = llama(std::move(name), layers, hidden, heads, kv_heads, ffn);
  constexpr std::size_t kTiedBelow = 3000;  // hidden size
  const bool small = hidden < kTiedBelow;
  model.layers.shape.vocab_size = small ? 151936 : 152064;
  if (small) model.layers.shape.embeddings = Embeddings::kTied;
  return model;
}

ModelShape nanotron(std::string name, std::size_t layers, std::size_t hidden, std::size_t heads,
                    std::size_t ffn) {
  ModelShape model = llama(std::move(name), layers, hidden, heads, heads, ffn);
  model.layers.shape.vocab_size = 131072;
  constexpr std::size_t kTiedBelow = 10000;
  if (ffn < kTiedBelow) model.layers.shape.embeddings = Embeddings::kTied;
  return model;
}

std::vector<ModelShape> all_models() {
  std::vector<ModelShape> models;
  for (const TransformerShape& preset : memory::model_presets()) {
    models.push_back(dense_model(preset));
  }
  models.insert(models.end(), {megatron("megatron-1.7b", 24, 2304, 24),
                               megatron("megatron-3.6b", 32, 3072, 30),
                               megatron("megatron-7.5b", 32, 4096, 36),
                               megatron("megatron-18b", 48, 6144, 40),
                               megatron("megatron-22b", 64, 6144, 48),
                               megatron("megatron-39b", 64, 8192, 48),
                               megatron("megatron-76b", 80, 10240, 60),
                               megatron("megatron-145b", 96, 12288, 80),
                               megatron("megatron-175b", 96, 12288, 96),
                               megatron("megatron-310b", 128, 16384, 96),
                               megatron("megatron-530b", 128, 20480, 105),
                               megatron("megatron-1t", 160, 25600, 128),
                               llama("llama1-7b", 32, 4096, 32, 32, 11008),
                               llama("llama1-13b", 40, 5120, 40, 40, 13824),
                               llama("llama1-33b", 60, 6656, 52, 52, 17920),
                               llama("llama1-65b", 80, 8192, 64, 64, 22016),
                               llama("llama2-7b", 32, 4096, 32, 32, 11008),
                               llama("llama2-13b", 40, 5120, 40, 40, 13824),
                               llama("llama2-70b", 80, 8192, 64, 8, 28672),
                               qwen("qwen2.5-0.5b", 24, 896, 14, 2, 4864),
                               qwen("qwen2.5-1.5b", 28, 1536, 12, 2, 8960),
                               qwen("qwen2.5-3b", 36, 2048, 16, 2, 11008),
                               qwen("qwen2.5-7b", 28, 3584, 28, 4, 18944),
                               qwen("qwen2.5-14b", 48, 5120, 40, 8, 13824),
                               nanotron("nanotron-1.34b", 16, 2048, 32, 8192),
                               nanotron("nanotron-3.57b", 28, 3072, 32, 8192),
                               nanotron("nanotron-8.86b", 32, 4096, 32, 14336),
                               nanotron("nanotron-80b", 80, 8192, 64, 28672)});
  ModelShape core = megatron("megatron-core-175b", 96, 12288, 96);
  core.layers.shape.vocab_size = 131072;
  core.layers.shape.num_positions = 4096;
  models.push_back(std::move(core));
  for (const expert_parallel::MoeModel& moe : expert_parallel::published_moe_models()) {
    ModelShape model{.layers = moe};
    if (moe.shape.name == "deepseek-v3") model.most_nodes = 4;
    // Queries and keys of 128 + 64 elements a head, values of 128.
    if (moe.attention_parameters) model.score_width = moe.shape.num_heads * (192 + 128) / 2;
    models.push_back(std::move(model));
  }
  return models;
}

/// Weights of attention's matrices in one block.
double attention_weights(const ModelShape& model) {
  const TransformerShape& s = model.shape();
  if (model.layers.attention_parameters) return real(*model.layers.attention_parameters);
  return 2 * real(s.hidden_size) * real(s.hidden_size + s.kv_hidden_size());
}

constexpr std::string_view kLayers = "model.layers.";

void add_to_block(FrozenWeights& frozen, const nn::NamedShape& weight) {
  const std::string_view rest = std::string_view(weight.name).substr(kLayers.size());
  FrozenBlock& block =
      frozen.blocks.at(*parse_number<std::size_t>(std::string(rest.substr(0, rest.find('.')))));
  const bool of_keys = rest.find("k_proj") != rest.npos || rest.find("v_proj") != rest.npos;
  std::size_t& kind = weight.shape.rank() == 1 ? block.norms
                      : of_keys                ? block.key_weights
                                               : block.split;
  kind += weight.shape.numel();
}

}  // namespace

ModelShape dense_model(TransformerShape shape) {
  const std::size_t layers = shape.num_layers;
  return {.layers = {.shape = std::move(shape), .dense_blocks = layers}};
}

const std::vector<ModelShape>& named_models() {
  static const std::vector<ModelShape> models = all_models();
  return models;
}

const ModelShape* find_model(std::string_view name) {
  const auto same = [name](const ModelShape& model) {
    return std::ranges::equal(name, model.shape().name, [](unsigned char a, unsigned char b) {
      return std::tolower(a) == b;
    });
  };
  const auto found = std::ranges::find_if(named_models(), same);
  return found == named_models().end() ? nullptr : &*found;
}

double parameters_of(const ModelShape& model) {
  if (!model.has_experts()) return real(memory::parameter_count(model.shape()));
  return real(expert_parallel::parameter_counts(model.layers).total);
}

double multiplied_parameters(const ModelShape& model) {
  const TransformerShape& s = model.shape();
  const double h = real(s.hidden_size);
  const double matrices = s.kind == BlockKind::kGpt ? 2 : 3;
  const expert_parallel::MoeConfig& moe = model.layers.moe;
  double experts = 3 * real(moe.expert_ffn) * real(moe.top_k + moe.shared_experts);
  experts += real(moe.num_experts);  // the router
  return h * real(s.vocab_size) + real(s.num_layers) * attention_weights(model) +
         real(model.layers.dense_blocks) * matrices * h * real(s.ffn_hidden_size) +
         (model.has_experts() ? real(model.layers.moe_blocks()) * h * experts : 0);
}

double model_flop_per_token(const ModelShape& model, std::size_t seq_len) {
  const FrozenWeights& frozen = model.frozen;
  std::size_t multiplied =
      frozen.output_table ? model.shape().vocab_size * model.shape().hidden_size : 0;
  for (const FrozenBlock& block : frozen.blocks) multiplied += block.split + block.key_weights;
  return 6 * multiplied_parameters(model) - 2 * real(multiplied) +
         12 * real(model.shape().num_layers) * model.attention_width() * real(seq_len);
}

FrozenWeights frozen_weights(const ModelShape& model, const std::vector<std::string>& patterns) {
  const memory::TransformerShape& s = model.shape();
  if (patterns.empty()) return {};
  if (s.kind == memory::BlockKind::kGpt || model.has_experts() ||
      model.layers.attention_parameters) {
    throw ConfigError(
        fmt::format("--freeze: a plan knows the names of a Llama's weights, and {} is none. Leave "
                    "it out, or record the step: --on.",
                    s.name));
  }
  nn::DenseFactory factory;
  const std::vector<nn::NamedShape> whole = nn::named_shapes(memory::config_of(s), factory);
  train::expect_to_train(patterns, whole);
  FrozenWeights frozen{.patterns = patterns, .blocks = std::vector<FrozenBlock>(s.num_layers)};
  for (const nn::NamedShape& weight : whole) {
    if (!train::is_frozen_by(patterns, weight.name)) continue;
    if (weight.name.starts_with(kLayers)) {
      add_to_block(frozen, weight);
    } else if (weight.name == nn::kEmbeddingName) {
      frozen.input_table = true;
      frozen.output_table |= s.embeddings == memory::Embeddings::kTied;
    } else if (weight.shape.rank() == 1) {
      frozen.final_norm = true;
    } else {
      frozen.output_table = true;
    }
  }
  return frozen;
}

}  // namespace ultra::planner
