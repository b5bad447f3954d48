#include <fmt/format.h>

#include <optional>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_technique.hpp"

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/03_data_parallel/scaling/scaling_flags.hpp"
#include "chapters/03_data_parallel/scaling/scaling_technique.hpp"
#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_report.hpp"
#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {
namespace {

using data_parallel::node_of;
using data_parallel::numbers_of;
using train::under_flag;

constexpr std::size_t kDefaultMicroBatch = 4;
constexpr const char* kNumbers = "2,4,8";

const std::vector<train::Choice<SequenceParallel>> kSequenceParallel = {
    {"on", SequenceParallel::kOn}, {"off", SequenceParallel::kOff}};
const std::vector<train::Choice<Hide>> kHides = {
    {to_string(Hide::kNothing), Hide::kNothing},
    {to_string(Hide::kWeightGradients), Hide::kWeightGradients}};
const std::vector<train::Choice<ExchangeAlgorithm>> kAlgorithms = {
    {to_string(ExchangeAlgorithm::kTwoLevel), ExchangeAlgorithm::kTwoLevel},
    {to_string(ExchangeAlgorithm::kRing), ExchangeAlgorithm::kRing}};

/// Calls visit with each flag, see data_parallel::add_flags().
constexpr auto kEachFlag = [](const auto& visit) {
  using Options = TpScalingOptions;
  visit("--scale-tp", &Options::tp,
        "predict the step on this many tensor-parallel ranks of a machine that is not here "
        "instead of training: 2,4,8,16,32");
  visit("--scale-tp-machine", &Options::machine, "one node of it, as for --simulate: h100,nics=1");
  visit("--scale-tp-preset", &Options::preset,
        "playbook-3b, a known model as for --estimate, or 'custom' for the model that the flags "
        "describe");
  visit("--scale-tp-seq", &Options::seq_len, "tokens per sequence");
  visit("--scale-tp-micro-batch", &Options::micro_batch,
        "sequences per forward and backward pass: a number, or one for each of --scale-tp [4; "
        "for playbook-3b those of the published figure]");
  visit("--scale-tp-sp", &Options::sequence_parallel,
        "split the sequences between the matrices: on or off", kSequenceParallel);
  visit("--scale-tp-hide", &Options::hide,
        "what runs while input gradients travel: nothing or weight-gradients", kHides);
  visit("--scale-tp-algorithm", &Options::algorithm,
        "of the exchanges between nodes: two-level or ring", kAlgorithms);
  visit("--scale-tp-bytes", &Options::element_bytes, "bytes of an activation's element");
  visit("--scale-tp-peak-tflops", &Options::peak_tflops, "1e12 FLOP per second of a GPU",
        train::Numbers{1e-3, 1e9});
  visit("--scale-tp-mfu", &Options::mfu, "the part of it that matrix products reach",
        train::Numbers{1e-3, 1.0});
  visit("--scale-tp-memory-gb-per-second", &Options::memory_gb_per_second,
        "1e9 bytes per second of a GPU's memory", train::Numbers{1e-3, 1e9});
  visit("--scale-tp-json", &Options::json, "print the prediction as JSON");
};

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
    const auto numbers = numbers_of<std::uint64_t>("--scale-tp-micro-batch", text, kNumbers);
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
  data_parallel::add_flags(app, "Tensor-parallel scaling", *this, kEachFlag);
}

void TpScalingOptions::validate() const {
  if (predicts()) return;
  data_parallel::expect_defaults(*this, kEachFlag,
                                 "--scale-tp RANKS, for example --scale-tp 2,4,8,16");
}

TpScalingRequest TpScalingOptions::request(const nn::ModelConfig& custom) const {
  const std::vector<int> ranks = numbers_of<int>("--scale-tp", tp, kNumbers);
  const memory::TransformerShape model = model_of(preset, custom);
  TpScalingRequest request{.model = model,
                           .machine = node_of("--scale-tp", machine),
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

std::unique_ptr<train::Technique> tp_scaling_prediction() {
  return std::make_unique<data_parallel::Prediction<TpScalingOptions>>();
}

}  // namespace ultra::tensor_parallel
