#pragma once
/// @file
/// Standard deviations of the initial weights.

#include <cmath>
#include <string_view>

#include "common/nn/model_config.hpp"

namespace ultra::nn {

/// Name of the token table.
inline constexpr std::string_view kEmbeddingName = "model.embed_tokens.weight";

/// Standard deviation of all weights that do not write to the residual stream (GPT-2's choice).
inline constexpr double kInitialDeviation = 0.02;

/// @brief Standard deviation of the two projections per block that write to the residual stream.
///
/// Their 2 L contributions add up, so each is scaled by 1 / sqrt(2 L).
/// Source: Radford et al. 2019 (GPT-2), sec. 2.3.
[[nodiscard]] inline double residual_deviation(const ModelConfig& config) {
  return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
}

}  // namespace ultra::nn
