// ZeRO: what a rank keeps and sends, by the formulas of exercise 04.6; and a micro-batch on a rank and its link, with and without prefetching.
#include "chapters/01_memory/model_presets.hpp"
#include "chapters/04_zero/prefetch_condition.hpp"
#include "chapters/04_zero/zero_memory.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "tools/site/figures/figure.hpp"

namespace ultra::site {
namespace {

using namespace zero;

constexpr std::size_t kMostUnits = 64;

Reshard reshard_of(const Json& question) {
  return value_of<bool>(question, "keep", false) ? Reshard::kAfterBackward : Reshard::kAfterForward;
}

Json stage_to_json(const Sharding& sharding, const Json& question) {
  const auto parameters = question.at("parameters").get<std::size_t>();
  const auto precision =
      memory::parse_precision(value_of<std::string>(question, "precision", "bf16-mixed"));
  const auto micro_batches = value_of<std::size_t>(question, "micro_batches", 1);
  const RankBytes bytes = bytes_per_rank(sharding, parameters, precision);
  const SentElements sent = sent_per_rank(sharding, parameters, micro_batches);
  return {
      {"stage", number_of(sharding.stage)},
      {"name", name_of(sharding.stage)},
      {"bytes",
       {{"parameters", bytes.parameters},
        {"gradients", bytes.gradients},
        {"optimizer", bytes.optimizer},
        {"total", bytes.total()}}},
      {"sent_elements",
       {{"inside", sent.inside}, {"between", sent.between}, {"total", sent.total()}}},
      {"largest_model_80gb", largest_model(sharding, precision, static_cast<double>(kGpuBytes))},
      {"fits_80gb_gpu", bytes.total() <= static_cast<double>(kGpuBytes)}};
}

Json stages(const Json& question) {
  const int ranks = value_of<int>(question, "ranks", 8);
  const int node_size = value_of<int>(question, "node_size", ranks);
  if (ranks < 1 || node_size < 1 || ranks % node_size != 0) {
    throw ConfigError(
        fmt::format("{} ranks are no whole number of nodes of {}.", ranks, node_size));
  }
  if (question.at("parameters").get<std::size_t>() < 1) {
    throw ConfigError("a model has at least 1 parameter.");
  }
  Json found = Json::array();
  for (const ZeroStage stage : kZeroStages) {
    found.push_back(stage_to_json(
        {.stage = stage, .shards = node_size, .replicas = ranks / node_size}, question));
  }
  return {{"ranks", ranks}, {"stages", std::move(found)}};
}

Json timeline(const Json& question) {
  const auto units = value_of<std::size_t>(question, "units", 6);
  if (units < 1 || units > kMostUnits) {
    throw ConfigError(fmt::format("{} units: this figure draws 1 to {}.", units, kMostUnits));
  }
  const UnitTimes unit{.forward = value_of<double>(question, "forward", 2),
                       .backward = value_of<double>(question, "backward", 4),
                       .gather = value_of<double>(question, "gather", 1.5),
                       .reduce = value_of<double>(question, "reduce", 1.5)};
  for (const double seconds : {unit.forward, unit.backward, unit.gather, unit.reduce}) {
    if (!(seconds >= 0 && seconds <= 1e9)) throw ConfigError("a time is a number from 0 to 1e9.");
  }
  const std::vector<UnitTimes> times(units, unit);
  const auto ahead = value_of<std::size_t>(question, "ahead", 1);
  const Reshard reshard = reshard_of(question);
  const PassTimes pass = predict_pass(times, ahead, reshard);
  Json spans = Json::array();
  for (const PassSpan& span : pass_timeline(times, ahead, reshard)) {
    spans.push_back({{"work", to_string(span.work)},
                     {"unit", span.unit},
                     {"begin", span.begin},
                     {"end", span.end}});
  }
  return {{"compute", pass.compute}, {"exposed", pass.exposed}, {"spans", std::move(spans)}};
}

Json models() {
  Json all = Json::array();
  for (const memory::TransformerShape& shape : memory::model_presets()) {
    all.push_back({{"name", shape.name}, {"parameters", memory::parameter_count(shape)}});
  }
  return {{"models", std::move(all)}};
}

}  // namespace

Json answer(const Json& question) {
  const auto kind = question.at("figure").get<std::string>();
  if (kind == "stages") return stages(question);
  if (kind == "timeline") return timeline(question);
  return models();
}

}  // namespace ultra::site
