#include "common/nn/model_config.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::nn {
namespace {

void validate_latents(const ModelConfig& model) {
  const LatentAttention& latent = model.latent;
  const std::pair<std::size_t, const char*> positive[] = {
      {latent.kv_lora_rank, "kv-lora-rank"},
      {latent.qk_nope_head_dim, "qk-nope-head-dim"},
      {latent.qk_rope_head_dim, "qk-rope-head-dim"},
      {latent.v_head_dim, "v-head-dim"}};
  for (const auto& [value, flag] : positive) {
    if (value == 0) throw ConfigError(fmt::format("--{} is 0. It must be at least 1.", flag));
  }
  // Rotated elements stand in pairs, and so do the others beside them.
  for (const auto& [value, flag] : positive) {
    if (value == latent.v_head_dim || value % 2 == 0) continue;
    throw ConfigError(
        fmt::format("--{} is {}, and must be even: elements of queries and keys stand in pairs, "
                    "which positions rotate. Choose {}.",
                    flag, value, value + 1));
  }
  if (latent.v_head_dim > latent.qk_head_dim()) {
    throw ConfigError(
        fmt::format("--v-head-dim {} is more than --qk-nope-head-dim + --qk-rope-head-dim = {}: a "
                    "value is as wide as a key, or narrower. Choose at most {}.",
                    latent.v_head_dim, latent.qk_head_dim(), latent.qk_head_dim()));
  }
  if (model.num_kv_heads != model.num_heads) {
    throw ConfigError(
        fmt::format("--attention mla makes a key and a value for each of the {} --heads, and "
                    "--kv-heads is {}. Leave --kv-heads out.",
                    model.num_heads, model.num_kv_heads));
  }
  if (model.sliding_window > 0) {
    throw ConfigError(
        "--window and --attention mla go into no model together: those with latents see all tokens "
        "before their own. Leave --window out.");
  }
  const std::pair<bool, const char*> others[] = {{model.head_size > 0, "--head-dim"},
                                                 {model.qkv_bias, "--qkv-bias"},
                                                 {model.qk_norm, "--qk-norm"}};
  for (const auto& [has, flag] : others) {
    if (!has) continue;
    throw ConfigError(fmt::format(
        "{} and --attention mla go into no model together: with latents, heads have widths of "
        "their own (--qk-nope-head-dim, --qk-rope-head-dim, --v-head-dim), norms stand on the "
        "latents, and nothing has biases. Leave {} out.",
        flag, flag));
  }
}

}  // namespace

void ModelConfig::validate() const {
  const std::pair<std::size_t, const char*> positive[] = {
      {vocab_size, "vocab"}, {hidden_size, "hidden"},     {num_layers, "layers"},
      {num_heads, "heads"},  {num_kv_heads, "kv-heads"},  {ffn_hidden_size, "ffn"},
      {max_seq_len, "seq"},  {head_chunks, "head-chunks"}};
  for (const auto& [value, flag] : positive) {
    if (value == 0) throw ConfigError(fmt::format("--{} is 0. It must be at least 1.", flag));
  }
  if (head_chunks > 1 && mtp) {
    throw ConfigError(
        "--head-chunks and --mtp go into no training together: the module of the token after next "
        "has the head compute all of its logits at once. Leave one of the two out.");
  }
  if (latent.on) return validate_latents(*this);
  if (head_size == 0 && hidden_size % num_heads != 0) {
    throw ConfigError(fmt::format(
        "--heads must divide --hidden: {} % {} = {}. Choose --hidden as a multiple of --heads, or "
        "give --head-dim.",
        hidden_size, num_heads, hidden_size % num_heads));
  }
  if (num_heads % num_kv_heads != 0) {
    throw ConfigError(fmt::format("--kv-heads must divide --heads: {} % {} = {}.", num_heads,
                                  num_kv_heads, num_heads % num_kv_heads));
  }
  if (head_dim() % 2 != 0) {
    if (head_size > 0) {
      throw ConfigError(fmt::format(
          "rotary positions need an even head dimension, and --head-dim is {}.", head_size));
    }
    throw ConfigError(
        fmt::format("rotary positions need an even head dimension: --hidden / --heads = {} / {} = "
                    "{}.",
                    hidden_size, num_heads, head_dim()));
  }
  if (qkv_bias && qk_norm) {
    throw ConfigError(
        "--qkv-bias and --qk-norm go into no model together: those that norm queries and keys have "
        "left the biases out. Leave one of the two out.");
  }
}

}  // namespace ultra::nn
