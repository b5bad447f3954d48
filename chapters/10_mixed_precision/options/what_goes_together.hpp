#pragma once
/// @file
/// What mixed precision does not go together with.

#include "chapters/10_mixed_precision/options/precision_options.hpp"
#include "common/train/program/technique.hpp"

namespace ultra::mixed_precision {

/// @brief Checks the flags of all techniques: the one place that says what cannot be.
/// @throws ConfigError that names both flags, the reason, and what to do.
void expect_goes_together(const train::Setup& setup, const PrecisionOptions& options);

}  // namespace ultra::mixed_precision
