#pragma once
/// @file
/// The table that explains every byte of a training run.

#include <string>

#include "chapters/01_memory/estimate/stored_formats.hpp"
#include "chapters/01_memory/recompute_mode.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::memory {

/// @brief Predicted and measured bytes per category, and when each was at its peak.
[[nodiscard]] std::string format_memory_table(const train::TrainOptions& options,
                                              const StoredFormats& formats,
                                              const RecomputeConfig& recompute,
                                              const train::TrainResult& result);

}  // namespace ultra::memory
