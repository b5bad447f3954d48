#pragma once
/// @file
/// Chapter 07 as a technique: the layers in stages, and micro-batches that pass them one after
/// another.
///
/// | what                  | becomes                                   | where                    |
/// |-----------------------|-------------------------------------------|--------------------------|
/// | the model             | parts: consecutive layers                 | stages/stage_split       |
/// | a step's order        | a list of passes per rank                 | schedule/                |
/// | activations           | messages to the next part                 | execution/pipeline_links |
/// | their gradients       | messages back                             | execution/pipeline_links |
/// | a linear's backward   | its input's gradient, its weight's later  | split_linear             |
/// | a tied token table    | two tables whose gradients add up         | nn::kTiedGroup           |
/// | the token after next  | the same: the last part reads it too      | nn::kTiedGroup           |
/// | PipeDream's update    | one after each backward; stashed weights  | pipedream/               |
/// | losses, norms, states | the same                                  | -                        |

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "chapters/07_pipeline_parallel/options/pipeline_options.hpp"
#include "common/train/cli/technique.hpp"

/// @brief Chapter 07: layers in stages, and the order in which micro-batches pass them.
namespace ultra::pipeline_parallel {

/// @brief The name of its axis of the mesh.
inline constexpr std::string_view kAxis = "pp";

/// @brief So many stages: they send least, so only the replicas are further apart.
[[nodiscard]] Axis axis_of(std::size_t ranks);

/// @brief --pp, --schedule, --schedule-file, --micro-batches, --stage-split and --executed-gantt.
class PipelineParallel : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  [[nodiscard]] std::vector<train::Conflict> conflicts(const train::Setup& setup) const override;
  void check_ranks(train::Setup& setup) override;
  void validate_training(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::FileFlag> files() const override;
  [[nodiscard]] std::vector<train::Conflict> conflicts_with_recording(
      const train::Setup& setup) const override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  [[nodiscard]] std::optional<Axis> axis() const override;
  void configure_plan(train::Plan& plan, const train::Setup& setup) const override;
  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup& setup) const override;
  void configure_step(train::StepConfig& step_config, const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::UnsavedState> states_that_are_not_saved() const override;
  [[nodiscard]] std::string table(const train::Setup& setup,
                                  const train::TrainResult& result) const override;
  void write_formulas(train::Formulas& formulas, const train::Setup& setup) const override;

  /// @brief The flags.
  [[nodiscard]] const PipelineOptions& options() const { return options_; }
  /// @brief In which order micro-batches pass, once that is settled; null: one by one.
  [[nodiscard]] const PipelineSchedule* schedule() const { return schedule_.get(); }

 private:
  PipelineOptions options_;
  std::shared_ptr<const PipelineSchedule> schedule_;  // from check_ranks() on, when there is one
};

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

/// @brief The flags of this chapter in a program that has it.
[[nodiscard]] const PipelineOptions& options_of(const train::Setup& setup);

/// @brief The schedule of a settled setup; null when micro-batches pass one by one.
[[nodiscard]] const PipelineSchedule* schedule_of(const train::Setup& setup);

}  // namespace ultra::pipeline_parallel
