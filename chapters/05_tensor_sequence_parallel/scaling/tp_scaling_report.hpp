#pragma once
/// @file
/// `05_tensor_sequence_parallel --scale-tp`: the scaling model's answer as a table and as JSON.

#include <string>

#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_model.hpp"
#include "common/base/json.hpp"

namespace ultra::tensor_parallel {

/// @brief The report as lines for the terminal: a row for each number of ranks, beside it what the
/// Playbook measured of the same question, and what the model leaves out.
[[nodiscard]] std::string format_tp_scaling(const TpScalingReport& report);

/// @brief The report as a JSON object: seconds, bytes, FLOP and bytes per second, tokens.
[[nodiscard]] Json tp_scaling_to_json(const TpScalingReport& report);

}  // namespace ultra::tensor_parallel
