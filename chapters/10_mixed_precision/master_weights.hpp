#pragma once
/// @file
/// Master weights: an update is far smaller than a weight, and two bytes cannot hold both.
///
/// The passes compute with weights of two bytes. A step changes a weight by about the learning
/// rate; bf16 keeps 8 significant bits, so next to a weight of 0.1 the nearest number is 0.0005
/// away, and a smaller change leaves the weight where it was, in every step anew. With master
/// weights the optimizer keeps each weight in f32, where small changes add up.
///
/// Exercise 10.4 (`./workbook check 10.4`).
/// Source: Micikevicius et al. 2018, "Mixed precision training", arXiv 1710.03740, sec. 3.1.

#include "common/optim/adamw.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::mixed_precision {

/// @brief The weights that one update changes, and what it needs for that.
struct WeightUpdate {
  Tensor weights;          ///< [n] of bf16 or f16: what passes compute with; written
  Tensor gradient;         ///< [n] of f32 or of two bytes
  optim::Moments moments;  ///< [n] of f32 each; updated
};

/// @brief Updates weights of which the optimizer keeps f32 copies.
/// @param master  [n] of f32; updated. Afterwards the weights are its numbers, rounded to nearest.
/// @param adamw   the update of one tensor, all of whose tensors have the type of the first.
void update_with_master(const WeightUpdate& update, const Tensor& master,
                        const optim::AdamWUpdate& adamw, const ops::AdamWStep& constants);

/// @brief Updates weights of which there is nothing but two bytes: computed in f32, and rounded to
/// nearest.
/// @return the numbers in f32 before they were rounded, [n].
Tensor update_without_master(const WeightUpdate& update, const optim::AdamWUpdate& adamw,
                             const ops::AdamWStep& constants);

}  // namespace ultra::mixed_precision
