#pragma once
/// @file
/// The ladder matmul_bf16: c = a transpose(b) in bf16 with sums in fp32.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Matrix products in bf16 on tensor cores; sizes are rows x columns x depth.
[[nodiscard]] std::unique_ptr<Ladder> matmul_bf16_ladder();

}  // namespace ultra::ladders
