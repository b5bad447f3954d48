#pragma once
/// @file
/// Schedules side by side on the same costs.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "chapters/07_pipeline_parallel/simulate/model_costs.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulated_step.hpp"

namespace ultra::pipeline_parallel {

/// @brief A schedule, simulated.
struct TableRow {
  PipelineSchedule schedule;  ///< which
  SimulatedStep step;         ///< of it
  std::string note = {};      ///< "optimal", "too many activations"

  /// @brief Activations that the fullest rank keeps, in units of PartCost::saved_bytes of a stage.
  [[nodiscard]] double peak() const;
};

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

/// @brief The rows of a question: schedules that there are not for so many micro-batches are left
/// out.
/// @throws ConfigError when it is too large to simulate, when what was measured is of other parts,
/// and when no row is left; Interrupted when the program is told to stop.
[[nodiscard]] std::vector<TableRow> table_rows(const TableQuestion& question);

/// @brief The rows as lines of a table.
[[nodiscard]] std::string format_rows(const TableQuestion& question,
                                      const std::vector<TableRow>& rows);

/// @brief The heading of the lines.
[[nodiscard]] std::string table_heading();

}  // namespace ultra::pipeline_parallel
