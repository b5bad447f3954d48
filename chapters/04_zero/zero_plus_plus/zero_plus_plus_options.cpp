#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::zero {
namespace {

enum class Technique { kWeightsInt8, kHierarchical, kGradientsInt8, kGradientsInt4 };

const std::vector<train::Choice<Technique>> kTechniques = {
    {"weights-int8", Technique::kWeightsInt8},
    {"hierarchical", Technique::kHierarchical},
    {"gradients-int8", Technique::kGradientsInt8},
    {"gradients-int4", Technique::kGradientsInt4}};

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = list.find(',', begin);
    words.push_back(list.substr(begin, end - begin));
    if (end == std::string::npos) return words;
    begin = end + 1;
  }
}

void apply(Technique technique, ZeroPlusPlus& settings) {
  switch (technique) {
    case Technique::kWeightsInt8:
      settings.weights = BlockFormat{.bits = QuantizedBits::kEight};
      return;
    case Technique::kHierarchical:
      settings.secondary = SecondaryShards::kInNode;
      return;
    case Technique::kGradientsInt8:
      settings.gradients = BlockFormat{.bits = QuantizedBits::kEight};
      return;
    case Technique::kGradientsInt4:
      settings.gradients = BlockFormat{.bits = QuantizedBits::kFour, .block = kInt4Block};
      return;
  }
}

}  // namespace

ZeroPlusPlus parse_techniques(const std::string& list) {
  ZeroPlusPlus settings;
  std::vector<std::string> seen;
  for (const std::string& word : words_of(list)) {
    const auto technique = train::parse_choice("--zero++", word, kTechniques);
    if (std::ranges::find(seen, word) != seen.end()) {
      throw ConfigError(fmt::format("--zero++ names {} twice. Name each technique once.", word));
    }
    if (technique >= Technique::kGradientsInt8 && settings.gradients) {
      throw ConfigError("--zero++ names gradients-int8 and gradients-int4. Choose one of the two.");
    }
    apply(technique, settings);
    seen.push_back(word);
  }
  return settings;
}

void ZeroPlusPlusOptions::add_to(CLI::App& app) {
  const train::Flags flags(app, "ZeRO++");
  flags.add_parsed(
      "--zero++",
      [this](const std::string& list) {
        const std::optional<std::size_t> node_size = settings.node_size;
        settings = parse_techniques(list);
        settings.node_size = node_size;
        techniques = list;
      },
      "with --zero 3: weights-int8, hierarchical, and gradients-int8 or gradients-int4, with "
      "commas between them [none]");
  flags.add("--node-size", settings.node_size,
            "ranks of a node, for --zero++ hierarchical and for gradients in two steps",
            {1, train::kMostRanks});
  train::when_given(app, "--reduce-scatter", [this] { reduce_scatter_given_ = true; });
}

void ZeroPlusPlusOptions::validate(const ZeroPlusPlusContext& zero) const {
  const bool in_node = settings.secondary == SecondaryShards::kInNode;
  if (settings.node_size && !in_node && !settings.gradients) {
    throw ConfigError(fmt::format(
        "--node-size {} has no meaning without --zero++ hierarchical, gradients-int8 or "
        "gradients-int4. Leave it out, or name one of them.",
        *settings.node_size));
  }
  if (techniques.empty()) return;
  if (zero.stage != ZeroStage::kParameters) {
    throw ConfigError(
        fmt::format("--zero++ {} needs parameters in shards, and --zero is {}. Add --zero 3.",
                    techniques, number_of(zero.stage)));
  }
  train::reject_conflicts(conflicts(zero));
  if (in_node && !settings.node_size) {
    throw ConfigError(fmt::format(
        "--zero++ {} needs nodes, and --node-size is not given. Add --node-size N, the ranks of "
        "one node.",
        techniques));
  }
}

std::vector<train::Conflict> ZeroPlusPlusOptions::conflicts(const ZeroPlusPlusContext& zero) const {
  std::vector<train::Conflict> all;
  const auto exclude = [&](bool broken, const std::string& flag, const char* general,
                           const std::string& reason) {
    all.push_back({.first = flag,
                   .second = "--zero++ " + (broken ? techniques : std::string(general)),
                   .reason = reason + " Leave out one of the two flags.",
                   .broken = broken});
  };
  const bool given = !techniques.empty();
  exclude(
      given && zero.hybrid_shard,
      zero.hybrid_shard ? fmt::format("--hybrid-shard {}", *zero.hybrid_shard) : "--hybrid-shard",
      "TECHNIQUES", "there is one copy, with its shards on all ranks.");
  exclude(settings.secondary == SecondaryShards::kInNode && zero.reshard == Reshard::kAfterBackward,
          "--reshard-after-forward no", "hierarchical",
          "weights that are kept are not gathered again.");
  exclude(settings.gradients && reduce_scatter_given_, "--reduce-scatter", "gradients-int8",
          "quantised gradients travel by all-to-all.");
  return all;
}

void ZeroPlusPlusOptions::expect_nodes_of(int replicas) const {
  if (settings.node_size) expect_nodes(checked_cast<std::size_t>(replicas), *settings.node_size);
}

train::ExtraConfig ZeroPlusPlusOptions::config() const {
  train::ExtraConfig config;
  if (techniques.empty()) return config;
  config.emplace_back("zero_plus_plus", techniques);
  config.emplace_back("node_size", settings.node_size.value_or(0));
  return config;
}

}  // namespace ultra::zero
