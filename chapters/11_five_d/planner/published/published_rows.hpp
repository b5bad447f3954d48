#pragma once
/// @file
/// Steps that others have measured, and what the planner says of them.

#include <optional>
#include <string>
#include <vector>

#include "chapters/11_five_d/planner/time/prediction.hpp"
#include "common/base/json_fields.hpp"

namespace ultra::planner {

/// @brief In what a published speed was counted.
enum class SpeedUnit : std::uint8_t {
  kSeconds,           ///< of a step
  kModelTflops,       ///< model FLOP/s of each GPU, in 1e12
  kCausalTflops,      ///< the same, with only what is before the causal mask of attention
  kRecomputedTflops,  ///< the same, with the blocks' forward pass counted twice
  kMfuPercent,        ///< of the GPU's bf16 peak
  kTokensPerGpu,      ///< tokens per second and GPU
};

/// @brief One row of a published table.
struct PublishedRow {
  std::string id;                 ///< "korthikanti-22b-present"
  std::string source;             ///< paper, table
  std::string group;              ///< rows of one table: medians are taken by group, too
  bool fitted = false;            ///< the constants of its GPU were fitted on it
  bool in_reference = true;       ///< false: a hold-out, of a table that the rest does not have
  Question question;              ///< what was run
  Layout layout;                  ///< how
  bool best_micro_batch = false;  ///< it was not published: the fastest that fits is taken
  bool best_layout = false;       ///< nor was anything but tp: the fastest is taken
  std::optional<SpeedUnit> unit = {};       ///< of `speed`; absent: no speed was published
  double speed = 0;                         ///< as published
  std::optional<double> memory_bytes = {};  ///< the highest of a GPU, as published
  bool reserved = false;    ///< of these bytes the allocator holds some that no tensor has
  std::string remark = {};  ///< why it is off, if it is
};

/// @brief A row with the planner's word.
struct ComparedRow {
  PublishedRow row;         ///< what was published
  Prediction prediction;    ///< what the planner says
  double predicted = 0;     ///< in the unit of the row's speed
  double speed_ratio = 0;   ///< predicted seconds over published seconds
  double memory_ratio = 0;  ///< predicted bytes over published ones; 0: none published
};

/// @brief The row that an object of such a file describes.
/// @throws FileError naming what is missing or wrong.
[[nodiscard]] PublishedRow published_row(const JsonFields& fields);

/// @brief The unit of a row's speed, as tables show it; empty for a row without one.
[[nodiscard]] std::string_view unit_of(const PublishedRow& row);

/// @brief The file of published rows, in the sources.
[[nodiscard]] std::string published_rows_path();

/// @brief Reads such a file.
/// @throws FileError for what is no such file, naming row and key.
[[nodiscard]] std::vector<PublishedRow> read_published_rows(const std::string& path);

/// @brief The planner's word on a row.
[[nodiscard]] ComparedRow compare(const PublishedRow& row);

/// @brief How far off ratios are: the median of |ratio - 1|; 0 without any.
[[nodiscard]] double median_error(std::vector<double> ratios);

}  // namespace ultra::planner
