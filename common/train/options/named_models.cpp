#include "common/train/options/named_models.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::train {
namespace {

constexpr std::string_view kModel = "--model";

/// What --model says, as the command line's reader will find it.
std::optional<std::string> named_in(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_flag(words[i], kModel)) continue;
    if (words[i].size() > kModel.size()) return words[i].substr(kModel.size() + 1);
    if (i + 1 < words.size()) return words[i + 1];
  }
  return {};
}

}  // namespace

NamedModel in_flags(const nn::NamedModel& named) {
  const nn::ModelConfig& config = named.config;
  NamedModel model{.name = named.name,
                   .flags = {{"--layers", fmt::to_string(config.num_layers)},
                             {"--hidden", fmt::to_string(config.hidden_size)},
                             {"--heads", fmt::to_string(config.num_heads)},
                             {"--kv-heads", fmt::to_string(config.num_kv_heads)},
                             {"--ffn", fmt::to_string(config.ffn_hidden_size)},
                             {"--vocab", fmt::to_string(config.vocab_size)}}};
  const auto add = [&](bool has, const char* flag, std::string value) {
    if (has) model.flags.emplace_back(flag, std::move(value));
  };
  add(config.tied_embeddings, "--tied-embeddings", "");
  add(config.head_size > 0, "--head-dim", fmt::to_string(config.head_size));
  add(config.qkv_bias, "--qkv-bias", "");
  add(config.qk_norm, "--qk-norm", "");
  add(config.sliding_window > 0, "--window", fmt::to_string(config.sliding_window));
  add(config.mtp, "--mtp", "");
  const nn::LatentAttention& latent = config.latent;
  add(latent.on, "--attention", "mla");
  add(latent.on, "--kv-lora-rank", fmt::to_string(latent.kv_lora_rank));
  add(latent.on, "--q-lora-rank", fmt::to_string(latent.q_lora_rank));
  add(latent.on, "--qk-nope-head-dim", fmt::to_string(latent.qk_nope_head_dim));
  add(latent.on, "--qk-rope-head-dim", fmt::to_string(latent.qk_rope_head_dim));
  add(latent.on, "--v-head-dim", fmt::to_string(latent.v_head_dim));
  return model;
}

std::vector<std::string> with_model_flags(std::vector<std::string> words,
                                          const std::vector<NamedModel>& models) {
  const std::optional<std::string> name = named_in(words);
  if (!name) return words;
  const auto model = std::ranges::find(models, *name, &NamedModel::name);
  if (model == models.end()) {
    std::vector<std::string_view> names;
    for (const NamedModel& known : models) names.push_back(known.name);
    throw ConfigError(fmt::format(
        "--model: no model is called {}. Choose {}, or describe one by --layers, --hidden, ...",
        in_quotes(*name), fmt::join(names, ", ")));
  }
  for (const auto& [flag, value] : model->flags) {
    const bool given =
        std::ranges::any_of(words, [&](const std::string& word) { return is_flag(word, flag); });
    if (given) continue;
    words.push_back(flag);
    if (!value.empty()) words.push_back(value);
  }
  return words;
}

}  // namespace ultra::train
