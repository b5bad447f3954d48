#include "common/train/options/named_models.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::train {
namespace {

constexpr std::string_view kModel = "--model";

struct LlamaSizes {
  std::size_t layers;
  std::size_t hidden;
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t ffn;
  std::size_t vocab;
  bool tied = false;
};

NamedModel llama(std::string name, const LlamaSizes& sizes) {
  NamedModel model{.name = std::move(name),
                   .flags = {{"--layers", fmt::to_string(sizes.layers)},
                             {"--hidden", fmt::to_string(sizes.hidden)},
                             {"--heads", fmt::to_string(sizes.heads)},
                             {"--kv-heads", fmt::to_string(sizes.kv_heads)},
                             {"--ffn", fmt::to_string(sizes.ffn)},
                             {"--vocab", fmt::to_string(sizes.vocab)}}};
  if (sizes.tied) model.flags.emplace_back("--tied-embeddings", "");
  return model;
}

bool is_flag(std::string_view word, std::string_view flag) {
  return word.starts_with(flag) && (word.size() == flag.size() || word[flag.size()] == '=');
}

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

const std::vector<NamedModel>& llama_models() {
  static const std::vector<NamedModel> models = {
      llama("llama-1b", {16, 2048, 32, 8, 8192, 128256, true}),
      llama("llama-7b", {32, 4096, 32, 32, 11008, 32000}),
      llama("llama-8b", {32, 4096, 32, 8, 14336, 128256}),
      llama("llama-70b", {80, 8192, 64, 8, 28672, 128256}),
      llama("llama-405b", {126, 16384, 128, 8, 53248, 128256}),
  };
  return models;
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
