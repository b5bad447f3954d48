#include "chapters/05_tensor_sequence_parallel/tp_scaling_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "chapters/01_memory/model_presets.hpp"
#include "chapters/05_tensor_sequence_parallel/tp_scaling_report.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/train/choice_option.hpp"
#include "common/train/options.hpp"

namespace ultra::tensor_parallel {
namespace {

constexpr std::size_t kMostPoints = 100;
constexpr std::size_t kDefaultMicroBatch = 4;
constexpr const char* kGroup = "Tensor-parallel scaling";

const std::vector<train::Choice<SequenceParallel>> kSequenceParallel = {
    {"on", SequenceParallel::kOn}, {"off", SequenceParallel::kOff}};
const std::vector<train::Choice<Hide>> kHides = {
    {to_string(Hide::kNothing), Hide::kNothing},
    {to_string(Hide::kWeightGradients), Hide::kWeightGradients}};
const std::vector<train::Choice<ExchangeAlgorithm>> kAlgorithms = {
    {to_string(ExchangeAlgorithm::kTwoLevel), ExchangeAlgorithm::kTwoLevel},
    {to_string(ExchangeAlgorithm::kRing), ExchangeAlgorithm::kRing}};

/// "1,2,4" as numbers.
template <class Number>
std::vector<Number> numbers_of(const char* flag, const std::string& text) {
  std::vector<Number> numbers;
  for (const std::string_view part : split(text, ',')) {
    const std::optional<Number> number = parse_number<Number>(part);
    if (!number) {
      throw ConfigError(fmt::format("{} {}: '{}' is not a whole number. Write for example 2,4,8.",
                                    flag, text, part));
    }
    numbers.push_back(*number);
  }
  if (numbers.size() > kMostPoints) {
    throw ConfigError(fmt::format("{} has {} numbers. It must have at most {}.", flag,
                                  numbers.size(), kMostPoints));
  }
  return numbers;
}

/// What fn returns; its message names our flag instead of the one that it belongs to elsewhere.
template <class Fn>
auto under_flag(std::string_view flag, std::string_view elsewhere, Fn&& fn) {
  try {
    return fn();
  } catch (const ConfigError& error) {
    std::string_view what = error.what();
    if (what.starts_with(elsewhere)) what.remove_prefix(elsewhere.size());
    const bool sentence = what.starts_with(' ') || what.starts_with(':');
    throw ConfigError(fmt::format("{}{}{}", flag, sentence ? "" : ": ", what));
  }
}

collectives::Topology node_of(const std::string& text) {
  for (const std::string_view entry : split(text, ',')) {
    if (entry.starts_with("nodes=")) {
      throw ConfigError(fmt::format(
          "--scale-tp-machine {}: leave out '{}'. --scale-tp says how many nodes there are.", text,
          entry));
    }
  }
  return under_flag("--scale-tp-machine", "--simulate",
                    [&] { return collectives::parse_topology(text); });
}

memory::TransformerShape model_of(const std::string& preset, const nn::ModelConfig& custom) {
  if (preset == playbook_model().name) return playbook_model();
  try {
    return under_flag("--scale-tp-preset", "--estimate",
                      [&] { return memory::shape_for_estimate(preset, custom); });
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{} Or {}.", error.what(), playbook_model().name));
  }
}

std::vector<std::size_t> micro_batches(const std::string& text, const std::vector<int>& tp,
                                       const memory::TransformerShape& model) {
  if (!text.empty()) {
    const auto numbers = numbers_of<std::uint64_t>("--scale-tp-micro-batch", text);
    return {numbers.begin(), numbers.end()};
  }
  if (model != playbook_model()) return {kDefaultMicroBatch};
  std::vector<std::size_t> sequences;
  for (const int ranks : tp) {
    const std::optional<PlaybookFigure> figure = find_playbook_figure(ranks);
    sequences.push_back(figure ? figure->micro_batch : kDefaultMicroBatch);
  }
  return sequences;
}

}  // namespace

void TpScalingOptions::add_to(CLI::App& app) {
  const CLI::Validator whole = train::whole_number();
  app.add_option(
         "--scale-tp", tp,
         "predict the step on this many tensor-parallel ranks of a machine that is not here "
         "instead of training: 2,4,8,16,32")
      ->group(kGroup);
  app.add_option("--scale-tp-machine", machine, "one node of it, as for --simulate: h100,nics=1")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--scale-tp-preset", preset,
                 "playbook-3b, a known model as for --estimate, or 'custom' for the model that the "
                 "flags describe")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--scale-tp-seq", seq_len, "tokens per sequence")
      ->check(whole)
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--scale-tp-micro-batch", micro_batch,
                 "sequences per forward and backward pass: a number, or one for each of --scale-tp "
                 "[4; for playbook-3b those of the published figure]")
      ->group(kGroup);
  train::add_choice(app, "--scale-tp-sp", sequence_parallel, kSequenceParallel, kGroup,
                    "split the sequences between the matrices: on or off");
  train::add_choice(app, "--scale-tp-hide", hide, kHides, kGroup,
                    "what runs while input gradients travel: nothing or weight-gradients");
  train::add_choice(app, "--scale-tp-algorithm", algorithm, kAlgorithms, kGroup,
                    "of the exchanges between nodes: two-level or ring");
  app.add_option("--scale-tp-bytes", element_bytes, "bytes of an activation's element")
      ->check(whole)
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--scale-tp-peak-tflops", peak_tflops, "1e12 FLOP per second of a GPU")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--scale-tp-mfu", mfu, "the part of it that matrix products reach")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--scale-tp-memory-gb-per-second", memory_gb_per_second,
                 "1e9 bytes per second of a GPU's memory")
      ->capture_default_str()
      ->group(kGroup);
  app.add_flag("--scale-tp-json", json, "print the prediction as JSON")->group(kGroup);
}

void TpScalingOptions::validate() const {
  if (predicts()) return;
  const TpScalingOptions defaults;
  const auto given = std::to_array<std::pair<bool, const char*>>({
      {machine != defaults.machine, "--scale-tp-machine"},
      {preset != defaults.preset, "--scale-tp-preset"},
      {seq_len != defaults.seq_len, "--scale-tp-seq"},
      {micro_batch != defaults.micro_batch, "--scale-tp-micro-batch"},
      {sequence_parallel != defaults.sequence_parallel, "--scale-tp-sp"},
      {hide != defaults.hide, "--scale-tp-hide"},
      {algorithm != defaults.algorithm, "--scale-tp-algorithm"},
      {element_bytes != defaults.element_bytes, "--scale-tp-bytes"},
      {peak_tflops != defaults.peak_tflops, "--scale-tp-peak-tflops"},
      {mfu != defaults.mfu, "--scale-tp-mfu"},
      {memory_gb_per_second != defaults.memory_gb_per_second, "--scale-tp-memory-gb-per-second"},
      {json, "--scale-tp-json"},
  });
  for (const auto& [is_given, flag] : given) {
    if (is_given) {
      throw ConfigError(
          fmt::format("{} needs --scale-tp RANKS, for example --scale-tp 2,4,8,16.", flag));
    }
  }
}

TpScalingRequest TpScalingOptions::request(const nn::ModelConfig& custom) const {
  const std::vector<int> ranks = numbers_of<int>("--scale-tp", tp);
  const memory::TransformerShape model = model_of(preset, custom);
  TpScalingRequest request{.model = model,
                           .machine = node_of(machine),
                           .tp = ranks,
                           .micro_batch = micro_batches(micro_batch, ranks, model),
                           .seq_len = seq_len,
                           .sequence_parallel = sequence_parallel,
                           .hide = hide,
                           .algorithm = algorithm,
                           .element_bytes = element_bytes,
                           .peak_flops = peak_tflops * 1e12,
                           .mfu = mfu,
                           .memory_bandwidth = memory_gb_per_second * 1e9};
  request.validate();
  return request;
}

std::string TpScalingOptions::answer(const nn::ModelConfig& custom) const {
  const TpScalingReport report = predict_tp_scaling(request(custom));
  return json ? tp_scaling_to_json(report).dump(2) + "\n" : format_tp_scaling(report);
}

}  // namespace ultra::tensor_parallel
