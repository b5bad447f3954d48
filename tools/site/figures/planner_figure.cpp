// The planner: chapter 11's `--plan --plan-json`.
#include "chapters/01_memory/model_presets.hpp"
#include "chapters/11_five_d/planner/model/model_shape.hpp"
#include "chapters/11_five_d/planner/report/plan_report.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/text.hpp"
#include "common/nn/model_config.hpp"
#include "common/replay/cluster/cluster.hpp"
#include "tools/site/figures/figure.hpp"

namespace ultra::site {
namespace {

using namespace planner;

constexpr std::size_t kLayouts = 10;
constexpr std::size_t kMostGpus = 1U << 15U;
constexpr std::size_t kMostBatch = 1ULL << 36U;
constexpr std::size_t kMostSeq = 1U << 24U;
constexpr std::size_t kMostWidth = 1U << 20U;

/// A whole number of the question, from 1 to `most`.
std::size_t count_of(const Json& question, const char* name, std::size_t otherwise,
                     std::size_t most) {
  if (!question.contains(name)) return otherwise;
  const Json& value = question.at(name);
  if (value.is_whole()) {
    const auto count = value.get<std::size_t>();
    if (count >= 1 && count <= most) return count;
  }
  throw ConfigError(
      fmt::format("{} is {}: here it is a whole number from 1 to {}.", name, value.dump(), most));
}

nn::ModelConfig custom_model(const Json& question) {
  const nn::ModelConfig defaults;
  const auto number = [&](const char* name, std::size_t otherwise) {
    return count_of(question, name, otherwise, kMostWidth);
  };
  const nn::ModelConfig model{.vocab_size = number("vocab", defaults.vocab_size),
                              .hidden_size = number("hidden", defaults.hidden_size),
                              .num_layers = number("layers", defaults.num_layers),
                              .num_heads = number("heads", defaults.num_heads),
                              .num_kv_heads = number("kv_heads", defaults.num_kv_heads),
                              .ffn_hidden_size = number("ffn", defaults.ffn_hidden_size)};
  model.validate();
  return model;
}

ModelShape model_of(const Json& question) {
  const auto name = value_of<std::string>(question, "model", "llama-8b");
  if (name == "custom") return dense_model(memory::shape_of(custom_model(question)));
  if (const ModelShape* model = find_model(name)) return *model;
  throw ConfigError(fmt::format("No model is called {}: choose one of the list.", in_quotes(name)));
}

replay::Cluster cluster_of(const Json& question) {
  const auto name = value_of<std::string>(question, "cluster", "dgx-h100");
  if (const replay::Cluster* cluster = replay::find_cluster(name)) return *cluster;
  throw ConfigError(
      fmt::format("No cluster is called {}: choose one of the list.", in_quotes(name)));
}

Question question_of(const Json& asked) {
  const std::size_t seq_len = count_of(asked, "seq", 4096, kMostSeq);
  const std::size_t tokens = count_of(asked, "batch", 1U << 22U, kMostBatch);
  if (tokens % seq_len != 0) {
    throw ConfigError(
        fmt::format("A batch of {} tokens must be a multiple of a sequence of {}: for example {}.",
                    tokens, seq_len, (tokens / seq_len + 1) * seq_len));
  }
  return {.work = {.model = model_of(asked), .seq_len = seq_len, .global_batch = tokens / seq_len},
          .cluster = cluster_of(asked),
          .software = find_software(value_of<std::string>(asked, "software", "modern"))};
}

/// What can be chosen by name.
Json menu() {
  Json models = Json::array();
  for (const ModelShape& model : named_models()) models.push_back(model.shape().name);
  models.push_back("custom");
  Json clusters = Json::array();
  for (const replay::Cluster& cluster : replay::named_clusters()) clusters.push_back(cluster.name);
  Json programs = Json::array();
  for (const Software& software : named_software()) programs.push_back(software.name);
  return {{"models", std::move(models)},
          {"clusters", std::move(clusters)},
          {"software", std::move(programs)}};
}

}  // namespace

Json answer(const Json& asked) {
  if (value_of<bool>(asked, "menu", false)) return menu();
  const Question question = question_of(asked);
  const SearchSpace space{.gpus = count_of(asked, "gpus", 64, kMostGpus),
                          .precision = memory::parse_precision(
                              value_of<std::string>(asked, "precision", "bf16-mixed-fp32grads"))};
  Json plan = plan_to_json(question, space, search_layouts(question, space, kLayouts));
  plan["gpu"] = {{"name", question.cluster.gpu.name},
                 {"memory_bytes", question.cluster.gpu.memory_bytes}};
  return plan;
}

}  // namespace ultra::site
