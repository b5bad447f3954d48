#include "chapters/08_expert_parallel/options/expert_parallel_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::expert_parallel {
namespace {

constexpr const char* kGroup = "Expert parallel";
constexpr std::size_t kMostExperts = 4096;
constexpr double kHighestCapacity = 1e6;

const std::vector<train::Choice<RouterKind>> kRouters = {{"softmax", RouterKind::kSoftmax},
                                                         {"sigmoid", RouterKind::kSigmoid}};
const std::vector<train::Choice<Balance>> kBalances = {
    {"aux", Balance::kAux}, {"bias", Balance::kBias}, {"none", Balance::kNone}};
const std::vector<train::Choice<CapacityGroup>> kGroups = {
    {"sequence", CapacityGroup::kSequence}, {"micro-batch", CapacityGroup::kMicroBatch}};

template <class T>
std::string word_of(const std::vector<train::Choice<T>>& choices, T value) {
  return std::string(std::ranges::find(choices, value, &train::Choice<T>::second)->first);
}

std::optional<double> capacity_from(const std::string& text) {
  if (text == "dropless") return {};
  const std::optional<double> factor = parse_number<double>(text);
  if (factor && *factor > 0 && *factor <= kHighestCapacity) return factor;
  throw ConfigError(fmt::format(
      "--capacity-factor is {}. It must be a number above 0 and up to {:.0f} (places of an expert, "
      "in units of those that evenly spread tokens need: 1.25 for example), or dropless.",
      factor && text.size() < 30 ? text : in_quotes(text), kHighestCapacity));
}

void expect_top_k(const MoeConfig& moe) {
  if (moe.top_k <= moe.num_experts) return;
  throw ConfigError(fmt::format(
      "--top-k {} is above --experts {}: a token chooses each expert once at most. Give "
      "--top-k {} or less, or more experts.",
      moe.top_k, moe.num_experts, moe.num_experts));
}

void expect_parts(const MoeConfig& moe, std::size_t ep) {
  if (moe.num_experts % ep == 0) return;
  throw ConfigError(
      fmt::format("--ep must divide --experts: {0} % {1} = {2}. Every rank holds as many experts; "
                  "choose a divisor of {0}.",
                  moe.num_experts, ep, moe.num_experts % ep));
}

}  // namespace

void ExpertParallelOptions::add_to(CLI::App& app) {
  const train::Flags flags(app, kGroup);
  flags.add("--experts", moe.num_experts,
            "experts in place of each block's feed-forward part; 0: none", {0, kMostExperts});
  flags.add("--top-k", moe.top_k, "experts that each token chooses", {1, kMostExperts});
  flags.add("--expert-ffn", expert_ffn, "width inside an expert; default: as --ffn", {1});
  flags.add("--shared-experts", moe.shared_experts,
            "experts that every token uses, beside those that it chooses", {0, kMostExperts});
  flags.add("--ep", ep, "ranks of dp x cp that hold the experts together", {1, kMostExperts});
  train::add_choice(app, "--router", moe.router, kRouters, kGroup,
                    "affinities: softmax over all experts, or a sigmoid of each");
  flags.add_parsed(
      "--capacity-factor",
      [this](const std::string& text) { moe.capacity_factor = capacity_from(text); },
      "places of an expert over those that evenly spread tokens need; whoever comes later is "
      "dropped; or dropless",
      "dropless");
  train::add_choice(app, "--capacity-group", moe.capacity_group, kGroups, kGroup,
                    "among whom places are given out: the tokens of a sequence, or of a rank's "
                    "micro-batch");
  train::add_choice(app, "--balance", moe.balance, kBalances, kGroup,
                    "aux: a term of the loss; bias: numbers that move the selection; none");
  flags.add("--aux-loss", moe.aux_coefficient, "coefficient of the balancing term", {0, 1e6});
  flags.add("--z-loss", moe.z_coefficient, "coefficient of the router's z-loss", {0, 1e6});
  flags.add("--bias-rate", moe.bias_rate, "by how much biases move in a step", {0, 1e6});
  train::Flags(app, "").add_parsed(
      "--ep-table",
      [](const std::string&) {
        throw ConfigError(
            "--ep-table is no longer there: --on prices the training itself. Write for example "
            "--model mixtral-8x7b --dp 8 --ep 1,2,4,8 --on dgx-h100.");
      },
      "");
  for (const char* flag :
       {"--top-k", "--expert-ffn", "--shared-experts", "--ep", "--router", "--capacity-factor",
        "--capacity-group", "--balance", "--aux-loss", "--z-loss", "--bias-rate"}) {
    train::when_given(app, flag, [this, flag] { given_.emplace_back(flag); });
  }
}

void ExpertParallelOptions::validate() const {
  const auto given = [this](std::string_view flag) {
    return std::ranges::find(given_, flag) != given_.end();
  };
  if (!has_experts()) {
    if (given_.empty() || (given_.size() == 1 && given("--ep") && ep == 1)) return;
    throw ConfigError(
        fmt::format("{} has no meaning without --experts: the feed-forward parts are dense. Add "
                    "--experts E, or "
                    "leave it out.",
                    given_.front()));
  }
  expect_top_k(moe);
  expect_parts(moe, ep);
  if (given("--capacity-group") && !moe.capacity_factor) {
    throw ConfigError(
        "--capacity-group has no meaning without --capacity-factor: nobody is dropped. Give a "
        "capacity factor, or leave it out.");
  }
  if (given("--aux-loss") && moe.balance != Balance::kAux) {
    throw ConfigError(
        "--aux-loss has a meaning with --balance aux only. Leave one of the two out.");
  }
  if (given("--bias-rate") && moe.balance != Balance::kBias) {
    throw ConfigError(
        "--bias-rate has a meaning with --balance bias only. Add that, or leave it out.");
  }
}

MoeConfig ExpertParallelOptions::config(std::size_t ffn) const {
  MoeConfig config = moe;
  config.expert_ffn = expert_ffn.value_or(ffn);
  return config;
}

std::map<std::string, std::string> ExpertParallelOptions::identity(std::size_t ffn) const {
  std::map<std::string, std::string> flags = {
      {"--experts", std::to_string(moe.num_experts)},
      {"--top-k", std::to_string(moe.top_k)},
      {"--expert-ffn", std::to_string(expert_ffn.value_or(ffn))},
      {"--shared-experts", std::to_string(moe.shared_experts)},
      {"--router", word_of(kRouters, moe.router)},
      {"--balance", word_of(kBalances, moe.balance)},
      {"--capacity-factor",
       moe.capacity_factor ? fmt::format("{}", *moe.capacity_factor) : "dropless"}};
  if (moe.capacity_factor) flags["--capacity-group"] = word_of(kGroups, moe.capacity_group);
  if (moe.balance == Balance::kAux) flags["--aux-loss"] = fmt::format("{}", moe.aux_coefficient);
  if (moe.balance == Balance::kBias) flags["--bias-rate"] = fmt::format("{}", moe.bias_rate);
  if (moe.z_coefficient > 0) flags["--z-loss"] = fmt::format("{}", moe.z_coefficient);
  return flags;
}

train::ExtraConfig ExpertParallelOptions::extra_config(std::size_t ffn) const {
  if (!has_experts()) return {{"experts", moe.num_experts}};
  train::ExtraConfig config = {{"experts", moe.num_experts},
                               {"top_k", moe.top_k},
                               {"expert_ffn", expert_ffn.value_or(ffn)},
                               {"shared_experts", moe.shared_experts},
                               {"ep", ep},
                               {"router", word_of(kRouters, moe.router)},
                               {"balance", word_of(kBalances, moe.balance)},
                               {"aux_loss", moe.aux_coefficient},
                               {"z_loss", moe.z_coefficient},
                               {"bias_rate", moe.bias_rate}};
  if (!moe.capacity_factor) {
    config.emplace_back("capacity_factor", "dropless");
    return config;
  }
  config.emplace_back("capacity_factor", *moe.capacity_factor);
  config.emplace_back("capacity_group", word_of(kGroups, moe.capacity_group));
  return config;
}

void expect_countable_experts(const MoeConfig& config, const ExpertBatch& batch,
                              double most_bytes) {
  const auto real = [](std::size_t value) { return static_cast<double>(value); };
  const double width = real(config.expert_ffn) + real(batch.hidden);
  const double experts = real(config.num_experts) + real(config.shared_experts);
  const double chosen = real(config.top_k) + real(config.shared_experts);
  const double weights = 3.0 * experts * real(config.expert_ffn) * real(batch.hidden);
  const double activations = 4.0 * real(batch.tokens) * chosen * width;
  constexpr double kBytes = 4.0 * 8.0;  // value, gradient and moments in f64
  if (kBytes * real(batch.layers) * (weights + activations) <= most_bytes) return;
  throw ConfigError(
      fmt::format("these experts can take more than {}. Choose a smaller --expert-ffn, --experts, "
                  "--shared-experts or --top-k, or a smaller model or micro-batch.",
                  format_bytes(static_cast<std::uint64_t>(most_bytes))));
}

void expect_divisible_experts(const MoeConfig& config, std::size_t tp) {
  if (config.expert_ffn % tp == 0) return;
  throw ConfigError(
      fmt::format("--tp must divide the width of an expert, --expert-ffn: {} % {} = {}. Every rank "
                  "has as much of each expert; choose another width.",
                  config.expert_ffn, tp, config.expert_ffn % tp));
}

}  // namespace ultra::expert_parallel
