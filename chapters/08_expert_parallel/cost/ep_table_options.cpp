#include "chapters/08_expert_parallel/cost/ep_table_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "chapters/02_collectives/algorithms/compact_step.hpp"
#include "chapters/03_data_parallel/scaling/scaling_flags.hpp"
#include "chapters/03_data_parallel/scaling/scaling_technique.hpp"
#include "chapters/08_expert_parallel/estimate/moe_models.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"

namespace ultra::expert_parallel {
namespace {

/// Calls visit with each flag, see data_parallel::add_flags().
constexpr auto kEachFlag = [](const auto& visit) {
  using Options = EpTableOptions;
  visit("--ep-table", &Options::nodes,
        "say what dispatching tokens to experts costs on this many nodes of a machine that is not "
        "here instead of training: 1,2,8");
  visit("--ep-table-machine", &Options::machine, "one node of it, as for --simulate: h100,nics=1");
  visit("--ep-table-model", &Options::model, "whose experts: mixtral-8x7b or deepseek-v3");
  visit("--ep-table-tokens", &Options::tokens, "tokens per rank", train::Counts{1, 1U << 24U});
  visit("--ep-table-node-limit", &Options::node_limit,
        "nodes that a token's choices may be on; 0: any number",
        train::Counts{0, collectives::kMaxRanks});
  visit("--ep-table-bytes", &Options::element_bytes, "bytes of an activation's element",
        train::Counts{1, 8});
  visit("--ep-table-json", &Options::json, "print the table as JSON");
};

const MoeModel& model_called(const std::string& name) {
  if (const MoeModel* model = find_moe_model(name)) return *model;
  std::vector<std::string> names;
  for (const MoeModel& model : published_moe_models()) names.push_back(model.shape.name);
  throw ConfigError(fmt::format("--ep-table-model is {}. It must be {}.", in_quotes(name),
                                fmt::join(names, " or ")));
}

/// Rows for all ranks must fit the messages of the simulator.
void expect_simulable(const DispatchQuestion& q) {
  const double elements = static_cast<double>(q.tokens * q.hidden) * static_cast<double>(q.top_k);
  if (elements <= static_cast<double>(collectives::CompactStep::kMaxCount)) return;
  throw ConfigError(fmt::format(
      "--ep-table-tokens {}: {:.3g} elements are more than the simulator's messages hold, {:.3g}. "
      "Choose fewer.",
      q.tokens, elements, static_cast<double>(collectives::CompactStep::kMaxCount)));
}

std::string format_rows(const DispatchQuestion& question) {
  std::string rows;
  const std::vector<DispatchCost> costs = dispatch_costs(question);
  const auto best = std::ranges::min_element(costs, {}, &DispatchCost::seconds);
  for (const DispatchCost& cost : costs) {
    rows += fmt::format("  {:>6}{:>7}  {:<12}{:>14}{:>14}{:>14.1f}{}\n", question.machine.nodes,
                        question.machine.ranks(), to_string(cost.way),
                        format_bytes(cost.between_nodes), format_bytes(cost.inside_node),
                        cost.seconds * 1e6, &cost == &*best ? "   fastest" : "");
  }
  return rows;
}

Json to_json(const DispatchQuestion& question) {
  Json ways = Json::array();
  for (const DispatchCost& cost : dispatch_costs(question)) {
    ways.push_back({{"way", to_string(cost.way)},
                    {"between_nodes_bytes", cost.between_nodes},
                    {"inside_node_bytes", cost.inside_node},
                    {"seconds", cost.seconds}});
  }
  return {{"nodes", question.machine.nodes},
          {"ranks", question.machine.ranks()},
          {"node_limit", question.node_limit},
          {"ways", ways}};
}

}  // namespace

void EpTableOptions::add_to(CLI::App& app) {
  data_parallel::add_flags(app, "Dispatch of tokens", *this, kEachFlag);
}

void EpTableOptions::validate() const {
  if (predicts()) return;
  data_parallel::expect_defaults(*this, kEachFlag,
                                 "--ep-table NODES, for example --ep-table 1,2,8");
}

std::vector<DispatchQuestion> EpTableOptions::questions() const {
  const MoeModel& published = model_called(model);
  const collectives::Topology node = data_parallel::node_of("--ep-table", machine);
  const std::vector<int> counts = data_parallel::numbers_of<int>("--ep-table", nodes, "1,2,8");
  data_parallel::expect_ascending(
      counts, {.flag = "--ep-table",
               .example = "1,2,8",
               .most = collectives::kMaxRanks / node.gpus_per_node,
               .bounds = fmt::format("there are from 1 to {} nodes",
                                     collectives::kMaxRanks / node.gpus_per_node)});
  std::vector<DispatchQuestion> all;
  for (const int count : counts) {
    DispatchQuestion question{.machine = node,
                              .tokens = tokens,
                              .hidden = published.shape.hidden_size,
                              .element_bytes = element_bytes,
                              .num_experts = published.moe.num_experts,
                              .top_k = published.moe.top_k,
                              .node_limit = std::min(node_limit, static_cast<std::size_t>(count))};
    question.machine.nodes = count;
    question.machine.validate();
    expect_simulable(question);
    all.push_back(question);
  }
  return all;
}

std::string EpTableOptions::answer(const nn::ModelConfig&) const {
  const std::vector<DispatchQuestion> all = questions();
  if (json) {
    Json answers = Json::array();
    for (const DispatchQuestion& question : all) answers.push_back(to_json(question));
    return answers.dump(2) + "\n";
  }
  std::string text =
      fmt::format("Dispatch of {} tokens per rank to the experts of {}{}\n\n", tokens, model,
                  node_limit == 0 ? "" : fmt::format(", at most on {} nodes", node_limit));
  text += fmt::format("  {:>6}{:>7}  {:<12}{:>14}{:>14}{:>14}\n", "nodes", "ranks", "way",
                      "between nodes", "inside", "microseconds");
  for (const DispatchQuestion& question : all) text += format_rows(question) + "\n";
  return text +
         "  Bytes that a rank sends. Per node, a row crosses once to each node of its "
         "choices.\n";
}

std::unique_ptr<train::Technique> dispatch_table() {
  return std::make_unique<data_parallel::Prediction<EpTableOptions>>();
}

}  // namespace ultra::expert_parallel
