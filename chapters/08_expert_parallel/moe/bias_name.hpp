#pragma once
/// @file
/// How a router's biases are called, among other numbers that no gradient changes.

#include <string_view>

namespace ultra::expert_parallel {

/// @brief What the names of biases end with: Hugging Face's, in DeepSeek-V3.
inline constexpr std::string_view kBiasSuffix = ".gate.e_score_correction_bias";

}  // namespace ultra::expert_parallel
