#include "chapters/11_five_d/planner/model/model_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "chapters/01_memory/model_presets.hpp"
#include "common/base/errors.hpp"
#include "common/base/json_fields.hpp"
#include "common/base/text.hpp"

namespace ultra::planner {
namespace {

std::string name_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().filename().empty()
             ? std::filesystem::path(path).stem().string()
             : std::filesystem::path(path).parent_path().filename().string();
}

std::size_t dimension(const JsonFields& file, std::string_view key) {
  constexpr std::size_t kMost = 1U << 24U;
  const std::size_t size = file.count(key);
  if (size <= kMost) return size;
  throw FileError(
      fmt::format("{}: \"{}\" is {}. No model has more than {}.", file.where(), key, size, kMost));
}

std::size_t dimension_or(const JsonFields& file, std::string_view key, std::size_t otherwise) {
  return file.has(key) ? dimension(file, key) : otherwise;
}

memory::TransformerShape gpt2(const JsonFields& file, const std::string& name) {
  const std::size_t hidden = dimension(file, "n_embd");
  return {.name = name,
          .kind = memory::BlockKind::kGpt,
          .num_layers = dimension(file, "n_layer"),
          .hidden_size = hidden,
          .num_heads = dimension(file, "n_head"),
          .num_kv_heads = dimension(file, "n_head"),
          .ffn_hidden_size = dimension_or(file, "n_inner", 4 * hidden),
          .vocab_size = dimension(file, "vocab_size"),
          .num_positions = dimension(file, "n_positions"),
          .embeddings = memory::Embeddings::kTied};
}

memory::TransformerShape llama(const JsonFields& file, const std::string& name) {
  const std::size_t heads = dimension(file, "num_attention_heads");
  return {.name = name,
          .num_layers = dimension(file, "num_hidden_layers"),
          .hidden_size = dimension(file, "hidden_size"),
          .num_heads = heads,
          .num_kv_heads = dimension_or(file, "num_key_value_heads", heads),
          .ffn_hidden_size = dimension(file, "intermediate_size"),
          .vocab_size = dimension(file, "vocab_size"),
          .embeddings = file.flag_or("tie_word_embeddings", false) ? memory::Embeddings::kTied
                                                                   : memory::Embeddings::kUntied};
}

/// first_k_dense_replace may be 0, which no count is.
std::size_t dense_blocks(const JsonFields& file) {
  const double blocks = file.number_or("first_k_dense_replace", 0);
  return blocks > 0 ? dimension(file, "first_k_dense_replace") : 0;
}

void add_experts(ModelShape& model, const JsonFields& file) {
  const bool mixtral = file.has("num_local_experts");
  if (!mixtral && !file.has("n_routed_experts")) return;
  model.layers.dense_blocks = dense_blocks(file);
  model.layers.moe = {
      .num_experts = dimension(file, mixtral ? "num_local_experts" : "n_routed_experts"),
      .top_k = dimension(file, "num_experts_per_tok"),
      .expert_ffn = dimension(file, mixtral ? "intermediate_size" : "moe_intermediate_size"),
      .shared_experts = dimension_or(file, "n_shared_experts", 0)};
  model.most_nodes = dimension_or(file, "topk_group", 0);
}

void add_latent_attention(ModelShape& model, const JsonFields& file) {
  if (!file.has("kv_lora_rank")) return;
  const nn::LatentAttention latent{.on = true,
                                   .kv_lora_rank = dimension(file, "kv_lora_rank"),
                                   .q_lora_rank = dimension(file, "q_lora_rank"),
                                   .qk_nope_head_dim = dimension(file, "qk_nope_head_dim"),
                                   .qk_rope_head_dim = dimension(file, "qk_rope_head_dim"),
                                   .v_head_dim = dimension(file, "v_head_dim")};
  const std::size_t heads = model.shape().num_heads;
  model.layers.attention_parameters =
      expert_parallel::parameter_count(latent, heads, model.shape().hidden_size);
  model.score_width = heads * (latent.qk_head_dim() + latent.v_head_dim) / 2;
}

/// Beyond this, counts of bytes would no longer be exact, or wrap around.
void expect_countable(const ModelShape& model, const std::string& path) {
  constexpr double kMost = 1e16;
  const memory::TransformerShape& s = model.shape();
  const expert_parallel::MoeConfig& moe = model.layers.moe;
  const auto real = [](std::size_t value) { return static_cast<double>(value); };
  const double experts = real(moe.num_experts + moe.shared_experts) * real(moe.expert_ffn);
  const double widths = 4 * real(s.hidden_size) + 3 * real(s.ffn_hidden_size) + 3 * experts;
  const double parameters =
      real(s.hidden_size) * (real(s.num_layers) * widths + 2 * real(s.vocab_size));
  if (parameters <= kMost) return;
  throw ConfigError(
      fmt::format("{}: about {:.0e} parameters are more than any model has: at most {:.0e}.",
                  in_quotes(path), parameters, kMost));
}

void validate(const ModelShape& model, const std::string& path) {
  const memory::TransformerShape& s = model.shape();
  expect_countable(model, path);
  const auto expect_divides = [&](const char* what, std::size_t value, const char* by,
                                  std::size_t parts) {
    if (value % parts == 0) return;
    throw ConfigError(fmt::format("{}: {} {} must be a multiple of {} {}.", in_quotes(path), what,
                                  value, by, parts));
  };
  expect_divides("hidden_size", s.hidden_size, "the heads", s.num_heads);
  expect_divides("num_attention_heads", s.num_heads, "num_key_value_heads", s.num_kv_heads);
  if (model.layers.dense_blocks > s.num_layers) {
    throw ConfigError(fmt::format("{}: first_k_dense_replace {} must be at most the layers, {}.",
                                  in_quotes(path), model.layers.dense_blocks, s.num_layers));
  }
  if (model.has_experts() && model.layers.moe.top_k > model.layers.moe.num_experts) {
    throw ConfigError(fmt::format("{}: num_experts_per_tok {} must be at most the experts, {}.",
                                  in_quotes(path), model.layers.moe.top_k,
                                  model.layers.moe.num_experts));
  }
}

}  // namespace

ModelShape read_model_file(const std::string& path) {
  const JsonFields file = JsonFields::of_file(path);
  ModelShape model =
      dense_model(file.has("n_embd") ? gpt2(file, name_of(path)) : llama(file, name_of(path)));
  add_experts(model, file);
  add_latent_attention(model, file);
  validate(model, path);
  return model;
}

ModelShape model_for_plan(const std::string& name, const nn::ModelConfig& custom) {
  if (name == "custom") return dense_model(memory::shape_of(custom));
  if (name.ends_with(".json")) return read_model_file(name);
  if (const ModelShape* model = find_model(name)) return *model;
  std::vector<std::string_view> names;
  for (const ModelShape& model : named_models()) names.push_back(model.shape().name);
  throw ConfigError(fmt::format(
      "--plan-model: no model is called {}. Choose {}, custom (with --layers, --hidden, ...) or a "
      "config.json.",
      in_quotes(name), fmt::join(names, ", ")));
}

}  // namespace ultra::planner
