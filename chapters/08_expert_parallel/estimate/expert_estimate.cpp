#include "chapters/08_expert_parallel/estimate/expert_estimate.hpp"

#include <fmt/format.h>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "chapters/08_expert_parallel/options/expert_parallel_options.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/units.hpp"

namespace ultra::expert_parallel {
namespace {

/// Far above this, bytes do not fit the integers that count them.
constexpr double kMostBytes = 1e18;

ExpertEstimate estimate(const ExpertRequest& request, std::size_t ep) {
  LocalMoe rank = request.rank;
  rank.ep = ep;
  const MoeModel& model = request.model;
  const RankParameters parameters = rank_parameters(model, rank);
  ExpertEstimate one{.ep = ep,
                     .parameters = parameters,
                     .states = state_bytes(parameters, request.sharding, ep, request.precision)};
  if (model.attention_parameters || model.dense_blocks > 0) return one;
  const auto peak = [&](const ExpertRows& rows) {
    return moe_peak_bytes(model, request.batch.size, request.precision, request.recompute, rank,
                          rows);
  };
  one.even = peak(even_rows(model.moe, rank, request.batch.size));
  one.most = peak(most_rows(model.moe, rank, request.batch.size));
  return one;
}

std::string heading(const ExpertRequest& request) {
  const MoeModel& model = request.model;
  const MoeConfig& moe = model.moe;
  const MoeParameters counts = parameter_counts(model);
  const auto& [stage, shards, replicas] = request.sharding;
  std::string text = fmt::format(
      "Mixture of experts: {}, {} experts of width {} in {} blocks, {} of them per token{}\n"
      "  parameters: {} in total, {} active per token, {} in routed experts\n",
      model.shape.name, moe.num_experts, moe.expert_ffn, model.moe_blocks(), moe.top_k,
      moe.shared_experts == 0 ? "" : fmt::format(" and {} shared", moe.shared_experts),
      format_count(counts.total), format_count(counts.active), format_count(counts.routed));
  text += fmt::format(
      "  {}, {} sequence{} of {} tokens, recomputation: {}, on dp times cp {} ranks\n",
      to_string(request.precision), request.batch.size, request.batch.size == 1 ? "" : "s",
      request.batch.seq_len, to_string(request.recompute.mode), shards * replicas);
  if (stage != zero::ZeroStage::kNone) text += fmt::format("  {}\n", name_of(stage));
  return text + "\n";
}

std::string format_table(const std::vector<ExpertEstimate>& estimates, const MoeConfig& moe) {
  const bool small = estimates.front().total() < 1e10;
  const double unit = small ? 1e6 : 1e9;
  const auto cell = [&](double bytes) { return fmt::format("{:.2f}", bytes / unit); };
  const auto optional_cell = [&](std::optional<std::size_t> bytes) {
    return bytes ? cell(static_cast<double>(*bytes)) : "-";
  };
  std::string table = fmt::format("  {:>4}{:>9}{:>12}{:>12}{:>12}{:>13}{:>11}{:>10}   {}\n", "ep",
                                  "experts", "parameters", "gradients", "optimizer", "activations",
                                  "at most", "total", small ? "MB per rank" : "GB per rank");
  for (const ExpertEstimate& one : estimates) {
    table += fmt::format("  {:>4}{:>9}{:>12}{:>12}{:>12}{:>13}{:>11}{:>10}\n", one.ep,
                         moe.num_experts / one.ep, cell(one.states.parameters),
                         cell(one.states.gradients), cell(one.states.optimizer),
                         optional_cell(one.even), optional_cell(one.most), cell(one.total()));
  }
  return table;
}

Json to_json(const ExpertEstimate& one) {
  Json json = {{"ep", one.ep},
               {"expert_parameters", one.parameters.experts},
               {"other_parameters", one.parameters.others},
               {"parameters_bytes", one.states.parameters},
               {"gradients_bytes", one.states.gradients},
               {"optimizer_bytes", one.states.optimizer}};
  if (one.even) json["peak_activations_bytes"] = *one.even;
  if (one.most) json["most_activations_bytes"] = *one.most;
  json["total_bytes"] = one.total();
  return json;
}

}  // namespace

void ExpertRequest::validate() const {
  rank.share.layout.validate();
  tensor_parallel::validate(model.shape, batch, rank.share.tensor);
  expect_countable_experts(model.moe,
                           {.layers = model.shape.num_layers,
                            .hidden = model.shape.hidden_size,
                            .tokens = batch.size * batch.seq_len},
                           kMostBytes);
  expect_divisible_experts(model.moe, rank.share.tensor.ranks());
  const auto ranks = static_cast<std::size_t>(sharding.shards * sharding.replicas);
  if (model.moe.num_experts % rank.ep != 0) {
    throw ConfigError(fmt::format("--ep must divide the experts: {} % {} = {}. Choose a divisor.",
                                  model.moe.num_experts, rank.ep, model.moe.num_experts % rank.ep));
  }
  if (ranks % rank.ep != 0) {
    throw ConfigError(
        fmt::format("--ep must divide the ranks of --dp times --cp: {} % {} = {}. Give more ranks "
                    "(--dp {}), or a divisor.",
                    ranks, rank.ep, ranks % rank.ep, rank.ep));
  }
}

std::vector<ExpertEstimate> estimate_up_to(const ExpertRequest& request) {
  request.validate();
  std::vector<ExpertEstimate> estimates;
  for (std::size_t ep = 1; ep <= request.rank.ep; ++ep) {
    if (request.rank.ep % ep == 0) estimates.push_back(estimate(request, ep));
  }
  return estimates;
}

std::string format_estimates(const ExpertRequest& request) {
  return heading(request) + format_table(estimate_up_to(request), request.model.moe) +
         "\nActivations: with tokens spread evenly, and at most, on a rank whose experts everybody "
         "chooses.\nNot counted: temporary results, rows on their way.\n";
}

std::string json_of_estimates(const ExpertRequest& request) {
  const MoeParameters counts = parameter_counts(request.model);
  Json json = {{"model", request.model.shape.name},  {"experts", request.model.moe.num_experts},
               {"top_k", request.model.moe.top_k},   {"parameters", counts.total},
               {"active_parameters", counts.active}, {"routed_parameters", counts.routed},
               {"expert_layouts", Json::array()}};
  for (const ExpertEstimate& one : estimate_up_to(request)) {
    json["expert_layouts"].push_back(to_json(one));
  }
  return json.dump(2) + "\n";
}

}  // namespace ultra::expert_parallel
