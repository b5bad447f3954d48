#pragma once
/// @file
/// What the planner would choose, beside what others found to be best.

#include <string>
#include <vector>

#include "chapters/11_five_d/planner/published/published_rows.hpp"
#include "common/base/json.hpp"

namespace ultra::planner {

/// @brief Layouts of one training that were all measured, and the planner's choice among them.
struct MeasuredChoice {
  std::string what;     ///< "GPT 175B on 64 A100"
  std::string chosen;   ///< the row that the planner predicts to be fastest
  std::string best;     ///< the row that was measured to be
  double lost = 0;      ///< of speed, as measured, by the choice: 0 when it is the best
  double apart = 0;     ///< by what part the second best took longer, as measured
  double believed = 0;  ///< by what part the planner's second took longer, as predicted
};

/// @brief The choices of a file of published rows: its "choices", each a list of rows' ids.
/// @param rows  of the same file.
/// @throws FileError for an id that no row has, and for what is no such file.
[[nodiscard]] std::vector<MeasuredChoice> measured_choices(const std::string& path,
                                                           const std::vector<ComparedRow>& rows);

/// @brief A published best layout, and what the planner would take instead.
struct OwnChoice {
  std::string id;        ///< of the row
  Prediction published;  ///< its layout, predicted
  Prediction own;        ///< the fastest that the planner finds
  /// @brief What the planner believes to gain by its own choice; nobody measured it.
  [[nodiscard]] double gain() const { return published.step.total() / own.step.total() - 1; }
};

/// @brief The planner's own choices for rows that were published as the best of many: those of a
/// group, with the schedules, stages of ZeRO and recomputation that its program was run with.
[[nodiscard]] std::vector<OwnChoice> own_choices(const std::vector<ComparedRow>& rows,
                                                 const std::string& group);

/// @brief Both as Markdown tables.
[[nodiscard]] std::string choices_to_markdown(const std::vector<MeasuredChoice>& measured,
                                              const std::vector<OwnChoice>& own);

/// @brief Both as JSON: {"choices": [{"training", "choice", "best", "lost", "apart", "believed"}],
/// "own": [{"row", "published", "planned", "gain"}]}.
[[nodiscard]] Json choices_to_json(const std::vector<MeasuredChoice>& measured,
                                   const std::vector<OwnChoice>& own);

/// @brief The group of the Playbook's best configurations.
inline constexpr const char* kPlaybookGroup = "Playbook";

}  // namespace ultra::planner
