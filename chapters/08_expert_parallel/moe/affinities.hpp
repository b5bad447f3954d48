#pragma once
/// @file
/// Affinities: what a router makes of its logits, with the gradients.

#include "chapters/08_expert_parallel/moe_config.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::expert_parallel {

/// @brief The affinity of each token to each expert: positive.
/// @param logits  [tokens, experts].
/// @return [tokens, experts].
/// Source: Mixtral, arXiv 2401.04088, section 2.1 (softmax); DeepSeek-V3, arXiv 2412.19437,
/// equation 15 (sigmoid).
[[nodiscard]] Tensor affinities_of(const Tensor& logits, RouterKind kind);

/// @brief The gradient of the logits.
/// @param d_affinities  [tokens, experts].
[[nodiscard]] Tensor affinities_backward(const Tensor& d_affinities, const Tensor& affinities,
                                         RouterKind kind);

/// @brief The affinities of each token divided by their sum: a softmax's as they are.
/// Source: DeepSeek-V3, equation 19.
[[nodiscard]] Tensor probabilities_of(const Tensor& affinities, RouterKind kind);

/// @brief The gradient of the affinities from that of the probabilities.
[[nodiscard]] Tensor probabilities_backward(const Tensor& d_probabilities, const Tensor& affinities,
                                            RouterKind kind);

/// @brief [tokens] log of the sum of the exponentials of each token's logits.
[[nodiscard]] Tensor log_sum_exp(const Tensor& logits);

/// @brief Adds scale log_sum_exp(logits)^2's gradient to d_logits, for every token: the z-loss.
///
/// Keeps logits small: the larger they are, the coarser are the steps between floats.
/// Source: Zoph et al. 2022, "ST-MoE", arXiv 2202.08906, section 3.3, equation 5.
void add_z_loss_gradient(const Tensor& d_logits, const Tensor& logits, double scale);

}  // namespace ultra::expert_parallel
