#include "chapters/07_pipeline_parallel/estimate/pipeline_estimate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "chapters/01_memory/estimate/estimate_report.hpp"
#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "chapters/04_zero/estimate/zero_estimate.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "chapters/06_context_parallel/options/context_parallel_options.hpp"
#include "chapters/07_pipeline_parallel/options/chosen_schedule.hpp"
#include "chapters/07_pipeline_parallel/schedule/live_activations.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/numeric.hpp"

namespace ultra::pipeline_parallel {
namespace {

nn::ModelConfig config_of(const memory::TransformerShape& shape, std::size_t seq_len) {
  return {.vocab_size = shape.vocab_size,
          .hidden_size = shape.hidden_size,
          .num_layers = shape.num_layers,
          .num_heads = shape.num_heads,
          .num_kv_heads = shape.num_kv_heads,
          .ffn_hidden_size = shape.ffn_hidden_size,
          .max_seq_len = seq_len};
}

StageEstimate estimate(const PipelineRequest& request, std::size_t stage) {
  const auto& [model, schedule, sequences, sharding] = request;
  StageEstimate one;
  for (std::size_t chunk = 0; chunk < schedule.placement.chunks(); ++chunk) {
    const std::size_t part = schedule.placement.part_at({.stage = stage, .chunk = chunk});
    one.layers.push_back(model.parts[part].layers.size());
    one.parameters += part_parameters(model, model.parts[part]);
  }
  one.held = peak_live_activations(schedule.ranks[stage]);
  one.states = zero::bytes_per_rank(sharding, one.parameters, model.precision);
  if (train::updates_between(schedule.ranks[stage])) {
    one.states.parameters *= static_cast<double>(one.held);  // a version each
  }
  one.peak_activations = peak_activation_bytes(model, schedule, stage, sequences);
  return one;
}

PipelineRequest request_of(const EstimateFlags& flags, const train::TrainOptions& train,
                           const PipelineOptions& options) {
  const memory::EstimateRequest asked = flags.memory.request(train);
  StageSplit split = options.split;
  if (split.rule == StageSplit::Rule::kMeasured) {
    throw ConfigError(
        "--estimate measures nothing, so --stage-split measured is not known. Give balanced, or "
        "the layers of each part.");
  }
  std::vector<std::size_t> sizes = data_parallel::micro_batch_sizes(train, flags.replicas);
  PipelineSchedule schedule =
      chosen_schedule(options, config_of(asked.shape, asked.batch.seq_len), sizes.size());
  const Placement& placement = schedule.placement;
  expect_split(split, asked.shape.num_layers, placement);
  if (split.rule == StageSplit::Rule::kBalanced) {
    split.layers = balanced_layers(asked.shape.num_layers, placement,
                                   operations_of(config_of(asked.shape, asked.batch.seq_len)));
  }
  PipelineRequest request{.model = {.shape = asked.shape,
                                    .parts = parts_of_model(split.layers),
                                    .precision = asked.precision,
                                    .recompute = asked.recompute,
                                    .share = flags.share},
                          .schedule = std::move(schedule),
                          .sequences = std::move(sizes),
                          .sharding = flags.sharding};
  request.model.share.layout.seq_len = asked.batch.seq_len;
  request.model.share.layout.validate();
  tensor_parallel::validate(asked.shape, asked.batch, request.model.share.tensor);
  return request;
}

std::string heading(const PipelineRequest& request, const PipelineOptions& options) {
  const StagedModel& model = request.model;
  std::string text = fmt::format(
      "Pipeline parallelism: {}, {}, {} on {} stages, {} micro-batches of {} x {} tokens, "
      "recomputation: {}\n",
      model.shape.name, to_string(model.precision), options.schedule_name(), options.pp,
      request.sequences.size(), request.sequences.front(), model.share.layout.seq_len,
      to_string(model.recompute.mode));
  if (model.share.tensor.tp > 1) {
    text += fmt::format("  each rank has 1/{} of the matrices (--tp)\n", model.share.tensor.tp);
  }
  if (model.share.layout.cp > 1) {
    text += fmt::format("  each rank has 1/{} of the tokens (--cp)\n", model.share.layout.cp);
  }
  if (request.sharding.stage != zero::ZeroStage::kNone) {
    text += fmt::format("  {} in shards on {} ranks of a stage\n", name_of(request.sharding.stage),
                        request.sharding.shards);
  }
  return text + "\n";
}

std::string format_table(const std::vector<StageEstimate>& stages) {
  const double largest = std::ranges::max(stages, {}, &StageEstimate::total).total();
  const double unit = largest < 1e10 ? 1e6 : 1e9;
  const auto in_unit = [&](double bytes) { return fmt::format("{:.2f}", bytes / unit); };
  std::string table =
      fmt::format("  {:>5}{:>9}{:>7}{:>12}{:>12}{:>12}{:>13}{:>10}   {} per rank; fits 80 GB\n",
                  "stage", "layers", "held", "parameters", "gradients", "optimizer", "activations",
                  "total", unit < 1e9 ? "MB" : "GB");
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const StageEstimate& one = stages[stage];
    table += fmt::format("  {:>5}{:>9}{:>7}{:>12}{:>12}{:>12}{:>13}{:>10}   {}\n", stage,
                         fmt::format("{}", fmt::join(one.layers, "+")), one.held,
                         in_unit(one.states.parameters), in_unit(one.states.gradients),
                         in_unit(one.states.optimizer),
                         in_unit(static_cast<double>(one.peak_activations)), in_unit(one.total()),
                         one.total() <= static_cast<double>(memory::kGpuBytes) ? "yes" : "no");
  }
  return table;
}

Json to_json(const StageEstimate& one) {
  return {{"layers", one.layers},
          {"parameters", one.parameters},
          {"held", one.held},
          {"parameters_bytes", one.states.parameters},
          {"gradients_bytes", one.states.gradients},
          {"optimizer_bytes", one.states.optimizer},
          {"peak_activations_bytes", one.peak_activations},
          {"total_bytes", one.total()},
          {"fits", one.total() <= static_cast<double>(memory::kGpuBytes)}};
}

}  // namespace

std::vector<StageEstimate> estimate_stages(const PipelineRequest& request) {
  std::vector<StageEstimate> stages;
  for (std::size_t stage = 0; stage < request.schedule.placement.stages(); ++stage) {
    stages.push_back(estimate(request, stage));
  }
  return stages;
}

double estimated_bubble(const PipelineRequest& request) {
  const StagedModel& model = request.model;
  const PieceCosts pieces = operations_of(config_of(model.shape, model.share.layout.seq_len));
  CostModel costs;
  for (const nn::StageSpec& part : model.parts) {
    const double operations =
        static_cast<double>(part.layers.size()) * pieces.block + (part.has_head ? pieces.head : 0);
    costs.parts.push_back(
        {.forward = operations, .backward_input = operations, .backward_weight = operations});
  }
  return simulate(request.schedule, costs).bubble_over_ideal();
}

std::string answer(const EstimateFlags& flags, const PipelineOptions& options) {
  if (zero::nominal_size(flags.memory.estimate)) {
    throw ConfigError(fmt::format(
        "--estimate {}: a size does not say how many layers there are for --pp to cut. Give a "
        "model's name, or 'custom' (with --layers, --hidden, ...).",
        flags.memory.estimate));
  }
  train::TrainOptions train = flags.train;
  options.cut_batch(train, flags.replicas);
  const PipelineRequest request = request_of(flags, train, options);
  const std::vector<StageEstimate> stages = estimate_stages(request);
  const double bubble = estimated_bubble(request);
  const memory::MemoryEstimate whole = memory::estimate_memory(flags.memory.request(train));
  if (!flags.memory.json) {
    return memory::format_estimate(whole) + "\n" + heading(request, options) +
           format_table(stages) +
           fmt::format(
               "\nheld: micro-batches times chunks whose activations a stage has at a time.\n"
               "Bubble: {:.1f}% of the work, if parts take as long as their operations and links "
               "are free.\nNot counted: temporary results, tensors on their way out.\n",
               100 * bubble);
  }
  Json json = memory::estimate_to_json(whole);
  json["pp"] = options.pp;
  json["schedule"] = options.schedule_name();
  json["micro_batches"] = request.sequences.size();
  json["bubble_over_ideal"] = bubble;
  json["stages"] = Json::array();
  for (const StageEstimate& one : stages) json["stages"].push_back(to_json(one));
  return json.dump(2) + "\n";
}

}  // namespace ultra::pipeline_parallel
