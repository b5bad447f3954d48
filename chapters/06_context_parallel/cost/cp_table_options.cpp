#include "chapters/06_context_parallel/cost/cp_table_options.hpp"

#include <fmt/format.h>

#include <optional>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/02_collectives/algorithms/compact_step.hpp"
#include "chapters/03_data_parallel/scaling/scaling_flags.hpp"
#include "chapters/03_data_parallel/scaling/scaling_technique.hpp"
#include "chapters/06_context_parallel/options/context_parallel_options.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"

namespace ultra::context_parallel {
namespace {

using data_parallel::numbers_of;

/// Calls visit with each flag, see data_parallel::add_flags().
constexpr auto kEachFlag = [](const auto& visit) {
  using Options = CpTableOptions;
  visit(
      "--cp-table", &Options::cp,
      "say which method wins on this many ranks of a machine that is not here instead of training: "
      "2,4,8,16");
  visit("--cp-table-machine", &Options::machine, "one node of it, as for --simulate: h100,nics=1");
  visit("--cp-table-preset", &Options::preset,
        "a known model as for --estimate, or 'custom' for the model that the flags describe");
  visit("--cp-table-seq", &Options::seq_len, "tokens per sequence, one or several: 8192,131072");
  visit("--cp-table-micro-batch", &Options::batch, "sequences per forward and backward pass",
        train::Counts{1, 1U << 20U});
  visit("--cp-table-tp", &Options::tp, "ranks that share the heads",
        train::Counts{1, train::kMostRanks});
  visit("--cp-table-bytes", &Options::element_bytes, "bytes of an activation's element",
        train::Counts{1, 8});
  visit("--cp-table-peak-tflops", &Options::peak_tflops, "1e12 FLOP per second of a GPU",
        train::Numbers{1e-3, 1e9});
  visit("--cp-table-mfu", &Options::mfu, "the part of it that attention reaches",
        train::Numbers{1e-3, 1.0});
  visit("--cp-table-json", &Options::json, "print the table as JSON");
};

std::string name_of(const MethodChoice& choice) {
  const std::string name(to_string(choice.method));
  if (choice.method != ContextMethod::kUlyssesRing) return name;
  return fmt::format("{} {}x{}", name, choice.ulysses, choice.ring());
}

/// The keys and values of all tokens must fit the messages of the simulator.
void expect_simulable(std::uint64_t tokens, std::size_t batch,
                      const memory::TransformerShape& model) {
  const auto elements = 2.0 * static_cast<double>(tokens) * static_cast<double>(batch) *
                        static_cast<double>(model.num_heads * model.head_dim());
  if (elements <= static_cast<double>(collectives::CompactStep::kMaxCount)) return;
  throw ConfigError(fmt::format(
      "--cp-table-seq {} with --cp-table-micro-batch {}: {:.3g} elements are more than the "
      "simulator's messages hold, {:.3g}. Choose shorter or fewer sequences.",
      tokens, batch, elements, static_cast<double>(collectives::CompactStep::kMaxCount)));
}

std::string format_rows(const MethodQuestion& question) {
  const std::vector<MethodCost> costs = method_costs(question);
  const MethodCost& best = fastest(costs);
  std::string rows;
  for (const MethodCost& cost : costs) {
    rows += fmt::format("  {:>8}{:>5}  {:<18}{:>12.1f}{:>12.1f}{:>12.1f}{:>12.1f}{}\n",
                        question.seq_len, question.cp, name_of(cost.choice), cost.compute * 1e6,
                        cost.communication * 1e6, cost.exposed * 1e6, cost.total() * 1e6,
                        &cost == &best ? "   fastest" : "");
  }
  return rows;
}

Json to_json(const MethodQuestion& question) {
  const std::vector<MethodCost> costs = method_costs(question);
  Json methods = Json::array();
  for (const MethodCost& cost : costs) {
    methods.push_back({{"method", to_string(cost.choice.method)},
                       {"ulysses", cost.choice.ulysses},
                       {"compute_seconds", cost.compute},
                       {"communication_seconds", cost.communication},
                       {"exposed_seconds", cost.exposed},
                       {"seconds", cost.total()}});
  }
  return {{"seq", question.seq_len},
          {"cp", question.cp},
          {"fastest", name_of(fastest(costs).choice)},
          {"methods", methods}};
}

}  // namespace

void CpTableOptions::add_to(CLI::App& app) {
  data_parallel::add_flags(app, "Context-parallel methods", *this, kEachFlag);
}

void CpTableOptions::validate() const {
  if (predicts()) return;
  data_parallel::expect_defaults(*this, kEachFlag,
                                 "--cp-table RANKS, for example --cp-table 2,4,8");
}

std::vector<MethodQuestion> CpTableOptions::questions(const nn::ModelConfig& custom) const {
  const memory::TransformerShape model = train::under_flag("--cp-table-preset", "--estimate", [&] {
    return memory::shape_for_estimate(preset, custom);
  });
  if (model.num_heads % tp != 0 || model.num_kv_heads % tp != 0) {
    throw ConfigError(
        fmt::format("--cp-table-tp is {}. It must divide the {} heads and the {} key/value heads.",
                    tp, model.num_heads, model.num_kv_heads));
  }
  const collectives::Topology node = data_parallel::node_of("--cp-table", machine);
  const std::vector<int> ranks = numbers_of<int>("--cp-table", cp, "2,4,8");
  data_parallel::expect_ascending(
      ranks, {.flag = "--cp-table",
              .example = "2,4,8",
              .most = collectives::kMaxRanks,
              .bounds = fmt::format("there are from 1 to {} ranks", collectives::kMaxRanks)});
  std::vector<MethodQuestion> all;
  for (const auto tokens : numbers_of<std::uint64_t>("--cp-table-seq", seq_len, "8192,131072")) {
    expect_simulable(tokens, batch, model);
    for (const int n : ranks) {
      all.push_back({.batch = batch,
                     .seq_len = tokens,
                     .heads = model.num_heads / tp,
                     .kv_heads = model.num_kv_heads / tp,
                     .head_dim = model.head_dim(),
                     .element_bytes = element_bytes,
                     .flops = peak_tflops * 1e12 * mfu,
                     .cp = n,
                     .node = node});
    }
  }
  return all;
}

std::string CpTableOptions::answer(const nn::ModelConfig& custom) const {
  const std::vector<MethodQuestion> all = questions(custom);
  if (json) {
    Json answers = Json::array();
    for (const MethodQuestion& question : all) answers.push_back(to_json(question));
    return answers.dump(2) + "\n";
  }
  std::string text = fmt::format(
      "Attention of one block of {}, forward and backward, in microseconds (zig-zag, {} "
      "sequences)\n\n",
      preset, batch);
  text += fmt::format("  {:>8}{:>5}  {:<18}{:>12}{:>12}{:>12}{:>12}\n", "tokens", "cp", "method",
                      "compute", "on links", "exposed", "together");
  for (const MethodQuestion& question : all) text += format_rows(question) + "\n";
  return text + "  A ring hides keys and values behind blocks; the others are waited for.\n";
}

std::unique_ptr<train::Technique> method_table() {
  return std::make_unique<data_parallel::Prediction<CpTableOptions>>();
}

}  // namespace ultra::context_parallel
