#pragma once
/// @file
/// The exam: published steps that the planner had not seen when they were entered.

#include <optional>
#include <string>
#include <vector>

#include "chapters/11_five_d/planner/published/published_rows.hpp"

namespace ultra::planner {

/// @brief What was said of a row on the day it was entered: predicted over published.
struct EnteredRatios {
  double speed = 0;   ///< of the time
  double memory = 0;  ///< of the memory; 0: none published
};

/// @brief One table of the exam's file, compared.
struct ExamTable {
  std::string group;                   ///< "vTrain 3.6B": tables of one group are counted together
  std::string source;                  ///< repository, file, commit
  bool choice = false;                 ///< its rows are layouts of one training: one can choose
  std::vector<ComparedRow> rows = {};  ///< with what the planner says today
  std::vector<EnteredRatios> entered = {};  ///< of each row
};

/// @brief The exam's file, in the sources.
[[nodiscard]] std::string exam_path();

/// @brief Reads such a file, and lets the planner answer.
///
/// A table has "group", "source", "defaults" (keys of a published row that all of its rows share),
/// "columns" (their other keys), "rows" (lists of as many values), and "entered" (lists of one or two
/// ratios).
/// @throws FileError for what is no such file, naming table, row and key; Interrupted.
[[nodiscard]] std::vector<ExamTable> take_exam(const std::string& path);

/// @brief Errors of a group's rows: of their times, or of their memory.
struct ExamErrors {
  double median = 0;  ///< of |ratio - 1|
  double mean = 0;    ///< of |ratio - 1|
  double worst = 1;   ///< the ratio that is furthest from 1
};

/// @brief Of ratios; nothing without any.
[[nodiscard]] std::optional<ExamErrors> exam_errors(const std::vector<double>& ratios);

/// @brief How much faster the fastest measured row is than the row that the planner believes fastest,
/// as a part of the latter's time: what the choice cost.
[[nodiscard]] double regret(const ExamTable& table);

/// @brief The exam as Markdown: errors by program and by group, as entered and today, what choices cost,
/// all rows. A group's program is the first word of its name.
[[nodiscard]] std::string exam_to_markdown(const std::vector<ExamTable>& exam);

/// @brief The same as JSON: {"groups": [...], "choices": [...], "rows": [...]}.
[[nodiscard]] Json exam_to_json(const std::vector<ExamTable>& exam);

}  // namespace ultra::planner
