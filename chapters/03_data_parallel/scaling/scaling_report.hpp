#pragma once
/// @file
/// `03_data_parallel --scale`: the scaling model's answer as a table and as JSON.

#include <string>

#include "chapters/03_data_parallel/scaling/scaling_model.hpp"
#include "common/base/json.hpp"

namespace ultra::data_parallel {

/// @brief The report as lines for the terminal: a row for each number of replicas, from which one on
/// the link is the bottleneck, and what the model leaves out.
[[nodiscard]] std::string format_scaling(const ScalingReport& report);

/// @brief The report as a JSON object: seconds, bytes, FLOP and bytes per second, tokens.
[[nodiscard]] Json scaling_to_json(const ScalingReport& report);

/// @brief Seconds as a cell of a table: 0.0125 -> "12.50", in milliseconds.
[[nodiscard]] std::string milliseconds(double seconds);

/// @brief The nearest whole number with thousands separators: 1234.5 -> "1,235".
[[nodiscard]] std::string format_rounded(double count);

/// @brief A prediction's machine as a JSON object: seconds, bytes per second.
/// @param node   one of it.
/// @param ranks  of the last point.
[[nodiscard]] Json machine_to_json(const collectives::Topology& node, int ranks);

}  // namespace ultra::data_parallel
