#pragma once
/// @file
/// The ladder rms_norm: a residual addition and the RMSNorm behind it.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Residual addition and RMSNorm in fp32; sizes are rows x hidden.
[[nodiscard]] std::unique_ptr<Ladder> rms_norm_ladder();

}  // namespace ultra::ladders
