#pragma once
/// @file
/// Gradient accumulation: a global batch in pieces that fit.
///
/// Exercise 01.4 (`./workbook check 01.4`).

#include <cstddef>

#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"

namespace ultra::memory {

/// @brief Forward and backward over the global batch of a step, micro-batch by micro-batch.
///
/// Afterwards each parameter holds the gradient of the mean loss over *all* tokens of the global
/// batch, as if the whole batch had gone through at once: each micro-batch's loss is divided by
/// `sampler.global_tokens()`, and the gradients add up.
/// @param step              0 for the first.
/// @param micro_batch_size  sequences per pass; divides sampler.global_batch_size().
/// @return the mean loss over the global batch.
/// @throws ConfigError when micro_batch_size does not divide the global batch.
/// Memory: the activations of one micro-batch, whatever the global batch.
double accumulate_gradients(nn::Model& model, const data::Sampler& sampler, std::size_t step,
                            std::size_t micro_batch_size);

}  // namespace ultra::memory
