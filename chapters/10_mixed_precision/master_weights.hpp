#pragma once
/// @file
/// Master weights: an update is far smaller than a weight, and two bytes cannot hold both.
///
/// The passes compute with weights of two bytes. A step changes a weight by about the learning
/// rate; bf16 keeps 8 significant bits, so next to a weight of 0.1 the nearest number is 0.0005
/// away, and a smaller change leaves the weight where it was, in every step anew. With master
/// weights the optimizer keeps each weight in f32, where small changes add up.
///
/// A bf16 number is the upper half of an f32 number, rounded. So a weight and its master weight hold
/// much the same: with the weight there, the master's lower half is enough to have it back.
///
/// Exercise 10.4 (`./workbook check 10.4`). Body: solutions/10_mixed_precision/master_weights.cpp.
/// Source: Micikevicius et al. 2018, "Mixed precision training", arXiv 1710.03740, sec. 3.1; the
/// halves: Transformer Engine's FusedAdam with store_param_remainders, multi_tensor/adam.cu.

#include <cstdint>
#include <functional>

#include "common/tensor/tensor.hpp"

namespace ultra::mixed_precision {

/// Updates [n] weights, in place, by their [n] gradient, with their optimizer states. Weights,
/// gradient and states have one type, f32.
using OptimizerUpdate = std::function<void(const Tensor& weights, const Tensor& gradient)>;

/// @brief Updates weights of which the optimizer keeps f32 copies.
/// @param weights   [n] of bf16 or f16: what passes compute with. Afterwards they are the master
/// weights, rounded to nearest.
/// @param gradient  [n] of f32 or of two bytes.
/// @param master    [n] of f32; updated.
void update_with_master(const Tensor& weights, const Tensor& gradient, const Tensor& master,
                        const OptimizerUpdate& update);

/// @brief Updates weights that have only their two bytes: computed in f32, and rounded to nearest.
/// @param weights   [n] of bf16 or f16; updated.
/// @param gradient  [n] of f32 or of two bytes.
/// @return the numbers in f32 before they were rounded, [n].
Tensor update_without_master(const Tensor& weights, const Tensor& gradient,
                             const OptimizerUpdate& update);

/// @brief A master weight in four bytes of which the passes can use two.
struct SplitMaster {
  std::uint16_t weight = 0;  ///< bits of a bf16 number: the master weight, rounded to nearest
  std::uint16_t rest = 0;    ///< what the optimizer keeps: the lower half of the master's bits

  bool operator==(const SplitMaster&) const = default;
};

/// @brief Splits a master weight so that joined() can undo it.
///
/// Of two bf16 numbers that are equally near the weight is the one farther from zero. To take the
/// even one, as bf16_from_f32() does, could not be undone.
/// @param master  finite.
[[nodiscard]] SplitMaster split(float master);

/// @brief The master weight, bit for bit.
[[nodiscard]] float joined(const SplitMaster& split);

}  // namespace ultra::mixed_precision
