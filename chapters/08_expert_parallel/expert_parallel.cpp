#include "chapters/08_expert_parallel/expert_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>

#include "chapters/01_memory/model_presets.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/08_expert_parallel/balancing/expert_observer.hpp"
#include "chapters/08_expert_parallel/moe/moe_models.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/checkpoint/json_file.hpp"
#include "common/checkpoint/models/config_json.hpp"

namespace ultra::expert_parallel {
namespace {

/// All ranks of a group have the same of a parameter, or parts of its gradient.
nn::Replication copies_in(std::string_view group, const Communicator& ranks,
                          nn::CopyGradients gradients) {
  return {.group = std::string(group),
          .size = ranks.size(),
          .index = ranks.rank(),
          .gradients = gradients};
}

std::shared_ptr<tensor_parallel::Region> region_of(const train::Plan& plan,
                                                   const train::Setup& setup) {
  const auto* tensor = setup.find<tensor_parallel::TensorParallel>();
  if (tensor == nullptr || !tensor->options().splits()) return nullptr;
  return tensor_parallel::make_region(plan.mesh.along(tensor_parallel::kAxis),
                                      tensor->options().sequence_parallel);
}

void expect_same(std::string_view flag, std::size_t given, std::string_view key, std::size_t stored,
                 const std::string& init) {
  if (given == stored) return;
  throw ConfigError(
      fmt::format("{0} is {1}, and the model of --init {2} has {3} {4}. Give {0} {4}.", flag, given,
                  in_quotes(init), key, stored));
}

/// A folder that says what its experts are has no others.
void expect_mixture_of(const std::string& init, const ExpertParallelOptions& options) {
  const auto path = std::filesystem::path(init) / "config.json";
  const std::string text =
      checkpoint::read_text(checkpoint::posix_files(), path, checkpoint::FileOf::kModel);
  const auto stored = checkpoint::parse_mixture(text, path.string());
  if (!stored) return;
  if (!options.has_experts()) {
    throw ConfigError(fmt::format(
        "the model of --init {0} is a mixture of experts. Add --experts {1} --top-k {2}.",
        in_quotes(init), stored->experts, stored->top_k));
  }
  expect_same("--experts", options.moe.num_experts, stored->count, stored->experts, init);
  expect_same("--top-k", options.moe.top_k, "num_experts_per_tok", stored->top_k, init);
  if (!stored->is_published) return;
  if (options.moe.router != RouterKind::kSoftmax) {
    throw ConfigError(fmt::format(
        "--router is sigmoid, and the router of --init {} is a softmax. Leave --router out.",
        in_quotes(init)));
  }
  if (stored->top_k > 1) return;
  throw ConfigError(fmt::format(
      "the mixture of --init {} chooses one expert for each token (num_experts_per_tok 1), "
      "which counts as a whole there, and by its affinity here. Choose a model with two or "
      "more.",
      in_quotes(init)));
}

/// Shares in percent; of many experts, the extremes.
std::string shares_in_words(const std::vector<double>& shares) {
  constexpr std::size_t kColumns = 16;
  std::string text;
  if (shares.size() <= kColumns) {
    for (const double share : shares) text += fmt::format("{:>7.1f}", 100 * share);
    return text;
  }
  const auto [least, most] = std::ranges::minmax_element(shares);
  const auto without = std::ranges::count(shares, 0.0);
  return fmt::format("  from {:.2f} to {:.2f} (expert {}), {} of {} without tokens", 100 * *least,
                     100 * *most, most - shares.begin(), without, shares.size());
}

/// The shares of tokens that the experts of each layer got in the last step; empty when an earlier run
/// has made it.
std::string format_loads(const train::TrainResult& result, std::size_t layers) {
  const auto& figures = result.steps.back().figures;
  std::string text = "\nShares of the experts in the last step, in percent\n\n";
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const auto found = figures.find(fmt::format("expert_load.{}", layer));
    if (found == figures.end()) return {};  // an earlier run has made the last step
    text += fmt::format("  layer {:<4}{}\n", layer, shares_in_words(found->second));
  }
  return text;
}

/// More than a machine has.
constexpr double kMostTrainedBytes = 1e13;

}  // namespace

void ExpertParallel::add_flags(CLI::App& app, train::Setup&) { options_.add_to(app); }

void ExpertParallel::validate(train::Setup& setup) {
  options_.validate();
  if (!setup.train.init.empty()) expect_mixture_of(setup.train.init, options_);
  if (options_.has_experts()) train::reject_conflicts(conflicts(setup));
}

std::vector<train::Conflict> ExpertParallel::conflicts(const train::Setup& setup) const {
  std::vector<train::Conflict> all;
  // Answers of models whose feed-forward parts are dense.
  for (const char* flag : {"--simulate", "--shapes"}) {
    const std::optional<train::Question> question = setup.question();
    all.push_back({.first = "--experts",
                   .second = flag,
                   .reason = "its answer knows no experts. Leave one of the two out.",
                   .broken = options_.has_experts() && question && question->flag == flag});
  }
  return all;
}

std::vector<train::NamedModel> ExpertParallel::named_models() const {
  std::vector<train::NamedModel> all;
  for (const auto& [dense, moe] : trainable_moe_models()) {
    train::NamedModel named = train::in_flags(dense);
    named.flags.emplace_back("--experts", fmt::to_string(moe.num_experts));
    named.flags.emplace_back("--top-k", fmt::to_string(moe.top_k));
    if (moe.expert_ffn != dense.config.ffn_hidden_size) {
      named.flags.emplace_back("--expert-ffn", fmt::to_string(moe.expert_ffn));
    }
    all.push_back(std::move(named));
  }
  return all;
}

void ExpertParallel::check_ranks(train::Setup& setup) {
  if (!options_.has_experts()) return;
  const auto ranks = static_cast<std::size_t>(setup.data_ranks());
  if (ranks % options_.ep != 0) {
    throw ConfigError(fmt::format(
        "--ep must divide the ranks of --dp times --cp, which hold the experts: {0} % {1} = {2}. "
        "Choose a divisor of {0}, or more ranks.",
        ranks, options_.ep, ranks % options_.ep));
  }
  if (options_.ep > 1) {
    zero::zero_of(setup).options().expect_nodes_of(checked_cast<int>(ranks / options_.ep));
  }
}

void ExpertParallel::validate_training(const train::Setup& setup) const {
  if (!options_.has_experts()) return;
  const nn::ModelConfig& model = setup.train.model;
  const MoeConfig config = options_.config(model.ffn_hidden_size);
  expect_countable_experts(config,
                           {.layers = model.num_layers,
                            .hidden = model.hidden_size,
                            .tokens = setup.train.micro_batch * model.max_seq_len},
                           kMostTrainedBytes);
  expect_divisible_experts(config, setup.ranks_along(tensor_parallel::kAxis));
}

train::ExtraConfig ExpertParallel::config(const train::Setup& setup) const {
  return options_.extra_config(setup.train.model.ffn_hidden_size);
}

train::Identity ExpertParallel::identity(const train::Setup& setup) const {
  if (!options_.has_experts()) return {};
  return options_.identity(setup.train.model.ffn_hidden_size);
}

MeshView view_of(std::size_t ranks) {
  return {
      .replaces = {std::string(ultra::kReplicaAxis), std::string(context_parallel::kAxis)},
      .rest = std::string(kReplicaAxis),
      .by = {{.name = std::string(kAxis), .size = ranks, .flag = fmt::format("--ep {}", ranks)}}};
}

std::optional<MeshView> ExpertParallel::mesh_view() const { return view_of(options_.ep); }

MoeScope scope_of(const MoeConfig& config, const train::Plan& plan, const train::Setup& setup) {
  const Mesh& mesh = plan.mesh;
  const Communicator& tp = mesh.along(tensor_parallel::kAxis);
  const auto ep = static_cast<std::size_t>(mesh.along(kAxis).size());
  const std::size_t held = config.num_experts / ep;
  const auto ep_rank = static_cast<std::size_t>(mesh.along(kAxis).rank());
  return {.config = config,
          .ep = mesh.along(kAxis),
          .region = region_of(plan, setup),
          .share = {.experts = {ep_rank * held, (ep_rank + 1) * held},
                    .tp = static_cast<std::size_t>(tp.size()),
                    .tp_rank = static_cast<std::size_t>(tp.rank()),
                    .data_group = std::string(ep == 1 ? nn::kDataGroup : kExpertGroup)},
          .router = {.cp = mesh.along(context_parallel::kAxis),
                     .sequences = setup.train.global_batch,
                     .weight_copies = {copies_in(tensor_parallel::kTensorGroup, tp,
                                                 nn::CopyGradients::kPartial)},
                     .bias_copies = {copies_in(tensor_parallel::kTensorGroup, tp,
                                               nn::CopyGradients::kEqual),
                                     copies_in(nn::kDataGroup, plan.groups.at(nn::kDataGroup),
                                               nn::CopyGradients::kEqual)},
                     .adds_loss_gradients = tp.rank() == 0,
                     .counters = plan.counters.get()}};
}

// [region technique]
void ExpertParallel::configure_plan(train::Plan& plan, const train::Setup&) const {
  if (!options_.has_experts()) return;
  if (options_.ep > 1) plan.groups.add(kExpertGroup, plan.mesh.along(kReplicaAxis));
  if (options_.moe.balance != Balance::kBias) return;
  plan.groups.add(std::string(nn::kLocalGroup),
                  plan.ranks().split(std::identity(), std::string(nn::kLocalGroup)));
}

void ExpertParallel::wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                                 const train::Setup& setup) const {
  if (!options_.has_experts()) return;
  const MoeConfig config = options_.config(setup.train.model.ffn_hidden_size);
  factories.push_back(
      std::make_unique<ExpertParallelFactory>(*factories.back(), scope_of(config, plan, setup)));
}

void ExpertParallel::configure_step(train::StepConfig& step_config, const train::Setup&) const {
  if (!options_.has_experts()) return;
  step_config.observers.emplace_back(
      [moe = options_.moe](const train::ModelScope& scope) { return observe_experts(scope, moe); });
}
// [/region]

std::string ExpertParallel::table(const train::Setup& setup,
                                  const train::TrainResult& result) const {
  if (!options_.has_experts()) return {};
  return "\n  Which experts tokens choose is not recorded: there, each gets as many. And on the "
         "CPU, "
         "what routers\n  decide with stays with the activations.\n" +
         format_loads(result, setup.train.model.num_blocks());
}

void ExpertParallel::write_formulas(train::Formulas& formulas, const train::Setup&) const {
  if (options_.has_experts()) formulas.clear();
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<ExpertParallel>(); }

const ExpertParallelOptions& options_of(const train::Setup& setup) {
  const auto* experts = setup.find<ExpertParallel>();
  ensure(experts != nullptr, "a program without chapter 08");
  return experts->options();
}

}  // namespace ultra::expert_parallel
