#pragma once
/// @file
/// `03_data_parallel --scale`: the scaling model's answer as a table and as JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "chapters/03_data_parallel/scaling/scaling_model.hpp"

namespace ultra::data_parallel {

/// @brief The report as lines for the terminal: a row for each number of replicas, from which one on
/// the link is the bottleneck, and what the model leaves out.
[[nodiscard]] std::string format_scaling(const ScalingReport& report);

/// @brief The report as a JSON object: seconds, bytes, FLOP and bytes per second, tokens.
[[nodiscard]] nlohmann::ordered_json scaling_to_json(const ScalingReport& report);

}  // namespace ultra::data_parallel
