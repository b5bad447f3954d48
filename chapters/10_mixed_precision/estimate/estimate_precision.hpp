#pragma once
/// @file
/// What --precision means to the estimates of the chapters before.

#include "chapters/10_mixed_precision/options/precision_options.hpp"
#include "common/train/program/technique.hpp"

namespace ultra::mixed_precision {

/// @brief Tells the estimates in which precision they are asked for.
/// @throws ConfigError for a precision that only an estimate has when a training is asked for, and
/// for a recipe whose bytes no estimate knows.
void pass_on_precision(train::Setup& setup, const PrecisionOptions& options);

}  // namespace ultra::mixed_precision
