#pragma once
/// @file
/// Cross-entropy of logits, with its gradient in the same pass.

#include <cstdint>

#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// The target of a token that has no loss: padding.
inline constexpr std::int32_t kNoTarget = -1;

/// @brief Sum over tokens of -log softmax(logits)[target], divided by `normalizer`.
///
/// Replaces the logits by their gradient (softmax - one_hot) / normalizer: the probabilities are
/// never stored beside them. The normaliser is given, because a rank or a micro-batch that holds
/// part of the tokens must divide by the number of all tokens of the global batch.
/// @param logits      [.., vocab], contiguous; holds d_logits afterwards. Those of bf16 and f16 are
///                    read as f32, and only the gradient is rounded.
/// @param targets     [..] of i32; a token with kNoTarget has no loss, and its gradient is 0.
/// @param normalizer  usually the tokens of the global batch.
/// @param z_loss      adds z_loss (log sum_j exp(logit_j))^2 to each token's loss, and its gradient
///                    2 z_loss (log sum_j exp(logit_j)) softmax; at least 0. For the CPU's own sums only.
///                    Source: Chowdhery et al. 2022, "PaLM", arXiv 2204.02311, section 5.
/// @return this part's share of the mean loss, accumulated in f64.
/// @throws ShapeError when a target is neither in [0, vocab) nor kNoTarget; on a device with streams,
/// where the host does not look at them, the loss is NaN then.
[[nodiscard]] double cross_entropy_into_gradient(const Tensor& logits, const Tensor& targets,
                                                 double normalizer, double z_loss = 0.0);

/// @brief The same, whose loss is written or added to a number on the device: nobody waits.
/// @param loss  [digits_of_sums()] of f64, on the logits' device.
void cross_entropy_into_gradient(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                                 double normalizer, Write write, double z_loss = 0.0);

}  // namespace ultra::ops
