#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/saved.hpp"
#include "common/tensor/synchronize.hpp"

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

constexpr int kTries = 3;

/// The input of a piece, and what comes back to its output.
struct PieceTensors {
  Tensor input;    // tokens [batch, seq], or hidden states [batch, seq, hidden]
  Tensor targets;  // [batch, seq]
};

double seconds_of(nn::Model& piece, const PieceTensors& tensors) {
  const auto begin = std::chrono::steady_clock::now();
  // What the module of the token after next reads costs the same, whatever it is.
  double further = 0;
  nn::Pass pass;
  pass.next = std::make_shared<const nn::NextTokens>(
      nn::NextTokens{.tokens = tensors.targets, .targets = tensors.targets, .loss = &further});
  nn::Saved saved(nn::Saved::Mode::kKeep, pass);
  const Tensor output = piece.forward(tensors.input, saved);
  if (piece.stage().has_head) {
    const auto tokens = static_cast<double>(tensors.targets.numel());
    static_cast<void>(piece.loss(output, tensors.targets, tokens, saved));
    static_cast<void>(piece.backward(saved));
  } else {
    static_cast<void>(piece.backward(output, saved));
  }
  synchronize(piece.device());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double least_seconds(const train::TrainOptions& options, const nn::StageSpec& stage) {
  const Device device = Device::create(options.device);
  nn::DenseFactory factory;
  nn::Model piece(options.model, device, options.dtype, options.seed, factory, stage);
  const std::size_t seq = options.model.max_seq_len;
  const Shape tokens{options.micro_batch, seq};
  const PieceTensors tensors{
      .input = stage.has_embedding
                   ? Tensor::zeros(device, tokens, DType::kI32)
                   : Tensor::zeros(device, {options.micro_batch, seq, options.model.hidden_size},
                                   options.dtype),
      .targets = Tensor::zeros(device, tokens, DType::kI32)};
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < kTries; ++i) least = std::min(least, seconds_of(piece, tensors));
  return least;
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

PieceCosts measure_pieces(const train::TrainOptions& options, const train::Plan& plan) {
  std::vector<double> seconds(3, 0.0);
  if (plan.ranks().rank() == 0) {
    const Range none{0, 0};
    seconds = {
        least_seconds(options, {.layers = none, .has_embedding = true, .has_head = false}),
        least_seconds(options, {.layers = {0, 1}, .has_embedding = false, .has_head = false}),
        least_seconds(options, {.layers = none, .has_embedding = false, .has_head = true})};
  }
  const Tensor shared = Tensor::from<double>(Device::cpu(), {seconds.size()}, seconds);
  plan.ranks().labeled("measured pieces").broadcast(shared, 0).wait();
  const std::vector<double> all = shared.to_vector();
  return {.embedding = all[0], .block = all[1], .head = all[2]};
}

}  // namespace ultra::pipeline_parallel
