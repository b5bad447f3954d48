#pragma once
/// @file
/// What mixed precision does not go together with.

#include <vector>

#include "chapters/10_mixed_precision/options/precision_options.hpp"
#include "common/train/options/exclusion.hpp"
#include "common/train/program/technique.hpp"

namespace ultra::mixed_precision {

/// @brief The flags of other techniques that take these flags' meaning away.
[[nodiscard]] std::vector<train::Exclusion> exclusions(const train::Setup& setup,
                                                       const PrecisionOptions& options);

}  // namespace ultra::mixed_precision
