#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "chapters/11_five_d/five_d.hpp"

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/07_pipeline_parallel/table/pp_table_options.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/10_mixed_precision/export/export_technique.hpp"
#include "chapters/10_mixed_precision/mixed_precision.hpp"
#include "chapters/11_five_d/planner/options/plan_options.hpp"
#include "chapters/11_five_d/profile/machine_profile.hpp"
#include "chapters/11_five_d/stepper/step_through.hpp"
#include "chapters/11_five_d/sums/tree_sums.hpp"
#include "common/base/errors.hpp"
#include "common/train/elsewhere/elsewhere.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::five_d {
namespace {

class Combinations : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override {
    const train::Flags flags(app, "Combinations");
    flags.add_switch("--combinations", asked_,
                     "print which flags do not go together, and why, instead of training");
    flags.add_switch("--combinations-json", json_, "print them as JSON");
  }
  void validate(train::Setup&) override {
    if (asked_ || !json_) return;
    throw ConfigError("--combinations-json has no meaning without --combinations. Give both.");
  }
  std::vector<train::Question> questions() const override {
    if (!asked_) return {};
    return {{"--combinations", train::Instead::kAnswer}};
  }
  std::optional<std::string> answer(const train::Setup& setup) const override {
    if (!asked_) return {};
    const std::vector<train::Conflict> all = conflicts_of(setup);
    return json_ ? combinations_to_json(all).dump(2) + "\n" : format_combinations(all);
  }

 private:
  bool asked_ = false;
  bool json_ = false;
};

}  // namespace

std::vector<train::Conflict> conflicts_of(const train::Setup& setup) {
  std::vector<train::Conflict> all;
  for (const auto& technique : setup.techniques) {
    for (train::Conflict& conflict : technique->conflicts(setup)) {
      all.push_back(std::move(conflict));
    }
  }
  for (train::Conflict& row : train::conflicts_with_recording(setup)) all.push_back(std::move(row));
  return all;
}

std::string format_combinations(const std::vector<train::Conflict>& conflicts) {
  std::size_t first = 0;
  std::size_t second = 0;
  for (const train::Conflict& conflict : conflicts) {
    first = std::max(first, conflict.first.size());
    second = std::max(second, conflict.second.size());
  }
  std::string text =
      "These do not go together; every other pair does. Flags that need another one, and sizes "
      "that "
      "do not fit, are refused with their numbers.\n\n";
  std::string_view last;
  for (const train::Conflict& conflict : conflicts) {
    const bool again = conflict.reason == last;
    text += fmt::format("  {:<{}}   {:<{}}   {}\n", conflict.first, first, conflict.second, second,
                        again ? "the same" : conflict.reason);
    last = conflict.reason;
  }
  return text;
}

Json combinations_to_json(const std::vector<train::Conflict>& conflicts) {
  Json rows = Json::array();
  for (const train::Conflict& one : conflicts) {
    rows.push_back({{"first", one.first}, {"second", one.second}, {"reason", one.reason}});
  }
  return rows;
}

std::unique_ptr<train::Technique> combinations() { return std::make_unique<Combinations>(); }

// [region techniques]
train::Techniques techniques() {
  return train::list_of(memory::technique(), collectives::technique(), data_parallel::technique(),
                        zero::technique(), zero::checkpoints(), zero::offload(),
                        tensor_parallel::technique(), context_parallel::technique(),
                        pipeline_parallel::technique(), pipeline_parallel::schedule_table(),
                        expert_parallel::technique(), mixed_precision::weight_export(),
                        mixed_precision::technique(), tree_sums(), combinations(),
                        profile::technique(), planner::technique(), stepper::technique(techniques));
}
// [/region]

}  // namespace ultra::five_d
