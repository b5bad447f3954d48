#pragma once
/// @file
/// --export: a saved model in two bytes instead of a training.

#include <memory>

#include "common/train/cli/technique.hpp"

namespace ultra::mixed_precision {

/// @brief --export DIR --export-to DIR --export-dtype bf16|f16 as a technique that answers.
[[nodiscard]] std::unique_ptr<train::Technique> weight_export();

}  // namespace ultra::mixed_precision
