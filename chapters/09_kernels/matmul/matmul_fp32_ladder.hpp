#pragma once
/// @file
/// The ladder matmul_fp32: c = a b in fp32.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Matrix products in fp32 on CUDA cores; sizes are rows x columns x depth.
[[nodiscard]] std::unique_ptr<Ladder> matmul_fp32_ladder();

}  // namespace ultra::ladders
