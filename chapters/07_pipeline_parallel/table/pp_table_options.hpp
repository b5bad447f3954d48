#pragma once
/// @file
/// The command-line options of the table that compares schedules without running them.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"
#include "chapters/07_pipeline_parallel/simulate/model_costs.hpp"
#include "common/nn/model_config.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/file_flags.hpp"

namespace ultra::pipeline_parallel {

/// @brief A pipeline that schedules are compared on.
struct TableQuestion {
  std::size_t stages = 1;               ///< p
  std::size_t micro_batches = 1;        ///< m
  std::vector<ScheduleChoice> choices;  ///< published schedules
  bool searches = false;                ///< whether search_schedule() joins in
  std::optional<PipelineSchedule> own;  ///< one that somebody has written
  ModelCosts costs = {};                ///< what passes take
  std::optional<CostModel> measured;    ///< in their place, for schedules of as many parts
  double most_activations = 0;          ///< of a rank, as peak(); 0: any number
};

/// @brief --pp-table with its own flags. Times are in any unit, the same for all.
struct PpTableOptions {
  static constexpr const char* kFlag = "--pp-table";  ///< that asks for it

  std::string pp;                   ///< --pp-table "4,8"; empty means: train
  std::string micro_batches = "8";  ///< --pp-table-micro-batches, one or several
  std::string schedules = "all";    ///< --pp-table-schedules "1f1b,zb-v,search"
  double forward = 1;               ///< --pp-table-forward: F of a stage
  double backward_input = 1;        ///< --pp-table-backward-input: B
  double backward_weight = 1;       ///< --pp-table-backward-weight: W
  double kept_after_b = 1;          ///< --pp-table-kept-after-b: of what F saves
  double embedding = 0;             ///< --pp-table-embedding: stages' worth
  double head = 0;                  ///< --pp-table-head: stages' worth
  double overlapped = 1;            ///< --pp-table-overlapped
  double latency = 0;               ///< --pp-table-latency
  double message = 0;               ///< --pp-table-message: the link is busy for so long
  double most_activations = 0;      ///< --pp-table-most-activations; 0: any number
  std::string file;                 ///< --pp-table-file: a schedule to read
  std::string costs;                ///< --pp-table-costs: a measured run
  bool chart = false;               ///< --pp-table-chart
  bool json = false;                ///< --pp-table-json
  std::string gantt;                ///< --pp-table-gantt: a file
  std::string trace;                ///< --pp-table-trace: a file
  std::string list;                 ///< --pp-table-list: a file

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);
  /// @brief Checks the flags against each other.
  /// @throws ConfigError when a flag is given that has no meaning without --pp-table.
  void validate() const;
  /// @brief True when a table is asked for, not training.
  [[nodiscard]] bool predicts() const { return !pp.empty(); }

  /// @brief The files that the flags name.
  [[nodiscard]] std::vector<train::FileFlag> files() const;

  /// @brief The questions: one for each number of stages and of micro-batches, in this order.
  /// @throws ConfigError for numbers and schedules that do not exist; FileError when
  /// --pp-table-file cannot be read.
  [[nodiscard]] std::vector<TableQuestion> questions() const;

  /// @brief The answer to --pp-table, for stdout; writes the files that the flags name.
  /// @throws ConfigError as questions() does, and when a file is asked for but there are several
  /// schedules; FileError when one cannot be written; Interrupted when the program is told to stop.
  [[nodiscard]] std::string answer(const nn::ModelConfig& model) const;
};

/// @brief --pp-table as a technique that answers instead of training.
[[nodiscard]] std::unique_ptr<train::Technique> schedule_table();

}  // namespace ultra::pipeline_parallel
