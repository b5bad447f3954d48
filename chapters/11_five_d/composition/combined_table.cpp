// The table behind a training along several axes: what each stage took and all ranks sent, beside the closed
// forms of the combined layout.

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/estimate/expert_table.hpp"
#include "chapters/08_expert_parallel/estimate/moe_models.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/11_five_d/composition/expert_traffic.hpp"
#include "chapters/11_five_d/composition/rank_activations.hpp"
#include "chapters/11_five_d/composition/rank_states.hpp"
#include "chapters/11_five_d/composition/step_traffic.hpp"
#include "chapters/11_five_d/five_d.hpp"
#include "common/base/difference.hpp"
#include "common/base/errors.hpp"
#include "common/base/units.hpp"

namespace ultra::five_d {
namespace {

constexpr std::array kShown = {MemoryCategory::kParameters, MemoryCategory::kGradients,
                               MemoryCategory::kOptimizer, MemoryCategory::kActivations};
using Predicted = std::array<std::optional<std::size_t>, kShown.size()>;

/// Axes with more than one rank; ep deals ranks of the others out once more.
std::size_t axes_of(const train::Setup& setup) {
  std::size_t axes = setup.replicas() > 1 ? 1 : 0;
  for (const std::string_view axis : {pipeline_parallel::kAxis, context_parallel::kAxis,
                                      tensor_parallel::kAxis, expert_parallel::kAxis}) {
    if (setup.ranks_along(axis) > 1) ++axes;
  }
  return axes;
}

/// Whether the closed forms are of this training: its states stay where they are, and its weights
/// change once in a step.
bool is_predicted(const train::Setup& setup) {
  using pipeline_parallel::StageSplit;
  const zero::ZeroSettings zero = zero::zero_of(setup).settings(setup);
  const pipeline_parallel::PipelineSchedule* schedule = pipeline_parallel::schedule_of(setup);
  const bool measured =
      pipeline_parallel::options_of(setup).split.rule == StageSplit::Rule::kMeasured;
  const bool updates = schedule && train::updates_between(schedule->ranks.front());
  return zero.offload.what == zero::Offload::kNone &&
         zero::zero_of(setup).options().plus_plus.techniques.empty() && !updates &&
         !(schedule && measured);
}

bool has_predicted_traffic(const train::Setup& setup) {
  const data_parallel::DataParallelOptions& data = data_parallel::options_of(setup);
  return data.compress == "none" && data.check_replicas == 0;
}

Predicted predictions(const train::Setup& setup, std::size_t rank) {
  const memory::StateBytes states = state_bytes(setup, rank);
  return {states.parameters, states.gradients, states.optimizer, activation_bytes(setup, rank)};
}

std::string cell(std::size_t measured, const std::optional<std::size_t>& predicted) {
  if (!predicted) return format_bytes(measured);
  return format_bytes(measured) + " " + format_difference(measured, *predicted, 1);
}

std::string memory_rows(const train::Setup& setup, const train::TrainResult& result) {
  const std::size_t between =
      setup.ranks_along(context_parallel::kAxis) * setup.ranks_along(tensor_parallel::kAxis);
  std::string rows;
  for (std::size_t stage = 0; stage < setup.ranks_along(pipeline_parallel::kAxis); ++stage) {
    const std::size_t rank = stage * between;
    const Predicted predicted = predictions(setup, rank);
    rows += fmt::format("  {:>5}{:>6}", stage, rank);
    for (std::size_t i = 0; i < kShown.size(); ++i) {
      const std::size_t measured = result.ranks.at(rank).memory.peak(kShown[i]).bytes;
      rows += fmt::format("{:>18}", cell(measured, predicted[i]));
    }
    rows += "\n";
  }
  return rows;
}

std::string traffic_lines(const train::Setup& setup, const train::TrainResult& result) {
  const std::size_t steps = result.steps_made();
  const std::optional<std::size_t> experts = expert_bytes(setup, result.ranks, steps);
  if (!experts) return {};
  const StepTraffic traffic = step_traffic(setup);
  const std::size_t together = traffic.total() + *experts / steps;
  std::size_t sent = 0;
  for (const train::RankSummary& rank : result.ranks) sent += rank.communication.sent_bytes();
  std::string text = "\n  All ranks send in a step:";
  for (const auto& [what, bytes] : {std::pair{"data", traffic.data},
                                    {"context", traffic.context},
                                    {"tensor", traffic.tensor},
                                    {"pipeline", traffic.pipeline},
                                    {"to the experts that were chosen and back", *experts / steps},
                                    {"gradients of copies", traffic.copies},
                                    {"loss and norm", traffic.sums}}) {
    if (bytes > 0) text += fmt::format(" {} {},", what, format_bytes(bytes));
  }
  return text + fmt::format(" together {}; measured {}.\n", format_bytes(together),
                            cell(sent / steps, together));
}

/// Whether --estimate asks for a model with experts.
bool estimates_experts(const train::Setup& setup) {
  return expert_parallel::options_of(setup).has_experts() ||
         expert_parallel::find_moe_model(memory::options_of(setup).estimate) != nullptr;
}

class CombinedTable : public train::Technique {
 public:
  std::optional<std::string> estimate(const train::Setup& setup) const override {
    const std::size_t stages = setup.ranks_along(pipeline_parallel::kAxis);
    if (stages == 1 || !estimates_experts(setup)) return {};
    throw ConfigError(fmt::format(
        "--estimate of a model with experts is of ranks that have all its blocks, and --pp is {}. "
        "Leave --pp out; or ask --plan, which knows the memory of stages with experts.",
        stages));
  }
  std::optional<std::string> memory_table(const train::Setup& setup,
                                          const train::TrainResult& result) const override {
    const bool experts = expert_parallel::options_of(setup).has_experts();
    const bool staged = setup.ranks_along(pipeline_parallel::kAxis) > 1;
    if (axes_of(setup) < 2 || !is_predicted(setup)) return {};
    if (experts && !staged) return {};  // chapter 08 knows their rows
    std::string table = fmt::format(
        "\nWhere the memory of the first rank of each stage went: measured, and how far from the "
        "prediction{}\n\n  {:>5}{:>6}{:>18}{:>18}{:>18}{:>18}\n",
        spreads_evenly(setup) ? "" : " (activations: of tokens that are spread evenly)", "stage",
        "rank", "parameters", "gradients", "optimizer", "activations");
    table += memory_rows(setup, result);
    if (has_predicted_traffic(setup)) table += traffic_lines(setup, result);
    if (!experts) return table;
    return table + expert_parallel::format_loads(result, setup.train.model.num_layers);
  }
};

}  // namespace

std::unique_ptr<train::Technique> combined_table() { return std::make_unique<CombinedTable>(); }

}  // namespace ultra::five_d
