#pragma once
/// @file
/// expect_finite: ends a training that has diverged.

#include <cstddef>
#include <string_view>

#include "common/train/options/options.hpp"

namespace ultra::train {

/// @brief Checks a figure of a training step.
/// @param what  "loss" or "gradient norm".
/// @param step  1 for the first.
/// @throws NumericError that says which flags may help, when the value is not finite.
void expect_finite(std::string_view what, double value, std::size_t step,
                   const TrainOptions& options);

}  // namespace ultra::train
