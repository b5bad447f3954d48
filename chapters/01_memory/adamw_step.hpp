#pragma once
/// @file
/// The AdamW update.
///
/// Exercise 01.3 (`./workbook check 01.3`). Body: solutions/01_memory/adamw_step.cpp.

#include <span>

#include "common/ops/adamw.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::memory {

/// @brief One AdamW update of n weights, in place.
///
/// The moments are running means of the scaled gradient and of its square, with the factors beta1 and
/// beta2. Both start at zero and are corrected for that; the weight then moves by the first over the
/// root of the second, and decays by itself:
///
///     value = value - learning_rate (direction + weight_decay value)
///
/// Deviation: in the paper alpha does not multiply the decay, only its schedule multiplier eta does.
/// PyTorch's torch.optim.AdamW multiplies the decay with its learning rate, and so do we.
/// Requires: T is float or double (both are instantiated).
/// @param value          [n] weights, updated.
/// @param grad           [n] gradient, read.
/// @param first_moment   [n] m, updated.
/// @param second_moment  [n] v, updated.
/// Memory: m and v double what weights and gradients take: 8 bytes per fp32 parameter.
/// Source: Loshchilov & Hutter 2019, arXiv 1711.05101, alg. 2.
template <FloatingScalar T>
void adamw_step(std::span<T> value, std::span<const T> grad, std::span<T> first_moment,
                std::span<T> second_moment, const ops::AdamWStep& constants);

}  // namespace ultra::memory
