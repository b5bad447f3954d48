#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// What each rank has to do beside its blocks.
std::vector<double> loads_of_ends(const Placement& placement, const PieceCosts& costs) {
  std::vector<double> loads(placement.stages(), 0.0);
  loads[placement.at(0).stage] += costs.embedding;
  loads[placement.at(placement.parts() - 1).stage] += costs.head;
  return loads;
}

/// The part of a rank with the fewest layers.
std::size_t smallest_part(std::size_t stage, const Placement& placement,
                          const std::vector<std::size_t>& layers) {
  std::size_t smallest = placement.part_at({.stage = stage, .chunk = 0});
  for (std::size_t chunk = 1; chunk < placement.chunks(); ++chunk) {
    const std::size_t part = placement.part_at({.stage = stage, .chunk = chunk});
    if (layers[part] < layers[smallest]) smallest = part;
  }
  return smallest;
}

}  // namespace

PieceCosts operations_of(const nn::ModelConfig& config) {
  const double h = real(config.hidden_size);
  const double q = real(config.q_hidden_size());
  const double kv = real(config.kv_hidden_size());
  const double attention = 2 * q * (real(config.max_seq_len) + 1);
  const double block =
      2 * (2 * h * q + 2 * h * kv + 3 * h * real(config.ffn_hidden_size)) + attention;
  const double head = 2 * h * real(config.vocab_size);
  // The token after next takes a projection of 2 h to h, a block, and the head again.
  const double further = config.mtp ? 2 * 2 * h * h + block + head : 0;
  return {.embedding = 0, .block = block, .head = head + further};
}

std::string StageSplit::str() const {
  if (rule == Rule::kGiven) return fmt::format("{}", fmt::join(layers, ","));
  return rule == Rule::kMeasured ? "measured" : "balanced";
}

StageSplit parse_stage_split(std::string_view text) {
  if (text == "balanced") return {};
  if (text == "measured") return {.rule = StageSplit::Rule::kMeasured};
  StageSplit split{.rule = StageSplit::Rule::kGiven};
  for (const std::string_view piece : ultra::split(text, ',')) {
    const auto layers = parse_number<std::uint64_t>(piece);
    if (!layers) {
      throw ConfigError(
          fmt::format("--stage-split is {}. It must be balanced, measured, or the layers of each "
                      "part with commas, for example 3,2,3.",
                      in_quotes(text)));
    }
    split.layers.push_back(*layers);
  }
  return split;
}

void expect_split(const StageSplit& split, std::size_t layers, const Placement& placement) {
  const std::size_t parts = placement.parts();
  if (split.rule != StageSplit::Rule::kGiven) {
    if (layers >= parts) return;
    throw ConfigError(fmt::format(
        "--layers {} are fewer than the {} parts of the model ({} stages, {} to a rank). Choose "
        "--layers of at least {}{}.",
        layers, parts, placement.stages(), placement.chunks(), parts,
        placement.chunks() > 1 ? ", a smaller --pp, or a schedule with fewer chunks"
                               : " or a smaller --pp"));
  }
  if (split.layers.size() != parts) {
    throw ConfigError(fmt::format(
        "--stage-split {} has {} numbers, but the model has {} parts: {} stages, {} to a rank. "
        "Give one number of layers for each part.",
        split.str(), split.layers.size(), parts, placement.stages(), placement.chunks()));
  }
  std::size_t sum = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    if (split.layers[part] == 0 || split.layers[part] > layers) {
      throw ConfigError(
          fmt::format("--stage-split {}: part {} has {} layers. Each part must have at least one, "
                      "and all together --layers {}.",
                      split.str(), part, split.layers[part], layers));
    }
    sum += split.layers[part];
  }
  if (sum == layers) return;
  throw ConfigError(
      fmt::format("--stage-split {} has {} layers, but the model has --layers {}. Change one of "
                  "the two.",
                  split.str(), sum, layers));
}

std::vector<std::size_t> balanced_layers(std::size_t layers, const Placement& placement,
                                         const PieceCosts& costs) {
  ensure(layers >= placement.parts(), "a layer for each part");
  std::vector<std::size_t> of_part(placement.parts(), 1);
  std::vector<double> loads = loads_of_ends(placement, costs);
  for (double& load : loads) load += real(placement.chunks()) * costs.block;
  for (std::size_t left = layers - placement.parts(); left > 0; --left) {
    const auto least = std::ranges::min_element(loads);
    *least += costs.block;
    ++of_part[smallest_part(static_cast<std::size_t>(least - loads.begin()), placement, of_part)];
  }
  return of_part;
}

std::vector<nn::StageSpec> parts_of_model(std::span<const std::size_t> layers) {
  std::vector<nn::StageSpec> parts;
  std::size_t begin = 0;
  for (std::size_t part = 0; part < layers.size(); ++part) {
    const std::size_t end = begin + layers[part];
    parts.push_back({.layers = {begin, end},
                     .has_embedding = part == 0,
                     .has_head = part + 1 == layers.size()});
    begin = end;
  }
  return parts;
}

}  // namespace ultra::pipeline_parallel
