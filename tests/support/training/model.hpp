#pragma once
/// @file
/// Random small models and batches, and what tests of them share.

#include <vector>

#include "common/nn/model.hpp"
#include "tests/support/random.hpp"

namespace ultra::test {

/// @brief A small legal configuration: odd widths, grouped heads, one or more layers.
[[nodiscard]] nn::ModelConfig random_model_config(Random& random);

/// @brief One micro-batch.
struct MicroBatch {
  Tensor tokens;   ///< [batch, seq] of i32
  Tensor targets;  ///< [batch, seq] of i32
};

/// @brief A micro-batch of that size with tokens of the model's vocabulary.
[[nodiscard]] MicroBatch random_micro_batch(Random& random, const Device& device,
                                            const nn::ModelConfig& config, std::size_t batch,
                                            std::size_t seq);

/// @brief Gives all weights large random values: gradients of order one, and no weight's too small
/// for a finite difference (the initial deviation of 0.02 would make those of queries and keys so).
void randomize_weights(Random& random, const nn::Model& model);

/// @brief Forward, loss and backward of one micro-batch; returns the loss.
double run_step(nn::Model& model, const MicroBatch& batch, double normalizer);

/// @brief Copies of all gradients, in the order of the parameters.
[[nodiscard]] std::vector<Tensor> gradients_of(const nn::Model& model);

/// @brief Size of the terms that the gradients are sums of: the largest element of all of them.
///
/// Not the largest of each: those of queries and keys are differences of terms like the values', and
/// over a single key they cancel to zero.
[[nodiscard]] double largest_gradient(const nn::Model& model);

/// @brief Roundings on the longest way through the model: the lengths of all sums on it.
[[nodiscard]] double model_roundings(const nn::ModelConfig& config, std::size_t seq);

}  // namespace ultra::test
