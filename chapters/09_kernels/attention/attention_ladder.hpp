#pragma once
/// @file
/// The ladder attention: the forward pass in fp32.

#include <memory>
#include <string>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Attention's forward pass in fp32 on CUDA cores; sizes are batch x kv_heads x group x seq_len x
/// head_dim, where `group` heads of queries share a head of keys and values. Odd seeds are causal.
[[nodiscard]] std::unique_ptr<Ladder> attention_ladder();

/// @brief Why rungs that load rows of fp32 in vectors and hold them on the chip refuse; empty when they
/// do not.
[[nodiscard]] std::string refuse_attention_tiles(const Sizes& sizes);

}  // namespace ultra::ladders
