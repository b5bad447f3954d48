// The memory of a training step: chapter 01's `--estimate MODEL --json`.
#include "chapters/01_memory/estimate/estimate_report.hpp"
#include "chapters/01_memory/estimate/model_presets.hpp"
#include "common/base/json.hpp"
#include "common/nn/model_config.hpp"
#include "tools/site/figures/figure.hpp"

namespace ultra::site {
namespace {

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
  for (const memory::TransformerShape& shape : memory::model_presets()) names.push_back(shape.name);
  names.push_back("custom");
  return {{"models", std::move(names)}};
}

}  // namespace

Json answer(const Json& question) {
  if (value_of<bool>(question, "menu", false)) return menu();
  const auto text = [&](const char* name, const char* otherwise) {
    return value_of<std::string>(question, name, otherwise);
  };
  memory::RecomputeConfig recompute{
      .mode = memory::parse_recompute(text("recompute", "none")),
      .recompute_every = value_of<std::size_t>(question, "recompute_every", 1)};
  recompute.validate();
  return memory::estimate_to_json(memory::estimate_memory(
      {.shape = memory::shape_for_estimate(text("model", "llama-8b"), model_of(question)),
       .batch = {.size = value_of<std::size_t>(question, "micro_batch", 1),
                 .seq_len = value_of<std::size_t>(question, "seq", 4096)},
       .precision = memory::parse_precision(text("precision", "bf16-mixed")),
       .recompute = recompute}));
}

}  // namespace ultra::site
