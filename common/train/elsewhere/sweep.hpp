#pragma once
/// @file
/// A sweep: one command line that stands for several, with lists of values.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/train/elsewhere/on_report.hpp"

namespace ultra::train {

/// @brief Several command lines.
struct Sweep {
  std::vector<std::string> flags;                ///< that have several values
  std::vector<std::vector<std::string>> values;  ///< of them, by line
  std::vector<std::vector<std::string>> lines;   ///< words without lists; at least one
};

/// Whether a flag reads a value as it stands.
using ReadsValue = std::function<bool(const std::string& flag, const std::string& value)>;

/// @brief All combinations of the values that stand with commas between them, the last flag's
/// fastest. A value with commas that its flag reads itself is one value, as is --on's.
/// @throws ConfigError for more combinations than anybody looks at.
[[nodiscard]] Sweep sweep_of(const std::vector<std::string>& words, const ReadsValue& reads);

/// @brief What one line of a sweep gave.
struct SweepRow {
  std::vector<std::string> values;  ///< of the sweep's flags
  OnReport report;                  ///< meaningless with an error
  std::string error;                ///< why there is no such training; else empty
};

/// @brief The rows as a table: memory of the fullest rank, time, part of the peak, waits.
[[nodiscard]] std::string sweep_to_text(const Sweep& sweep, const std::vector<SweepRow>& rows);
/// @brief The rows as JSON: a list of reports, each with its flags.
[[nodiscard]] std::string sweep_to_json(const Sweep& sweep, const std::vector<SweepRow>& rows);

}  // namespace ultra::train
