#pragma once
/// @file
/// What a loss of a vocabulary in parts needs besides exercise 05.3: the cross-entropy by operations,
/// and the head's z-loss.

#include "common/comm/communicator.hpp"
#include "common/ops/partial_softmax.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::tensor_parallel {

/// @brief Cross-entropy of logits that the ranks have in parts, by operations of their device.
/// @param part  whose padding is not looked at, and has gradient 0.
/// @param sum   [ops::digits_of_sums] of f64 on the device, to which the loss is added without anybody waiting; undefined:
///              it is returned, and the host waits for it.
/// @return the loss, or 0 when it is in `sum`; the same on every rank, bit for bit.
/// Collective over tp.
/// Cost: as vocabulary_parallel_cross_entropy().
[[nodiscard]] double loss_on_device(const ops::LogitsOfPart& part, double normalizer,
                                    const Communicator& tp, const Tensor& sum);

/// @brief log sum_j exp(logit_j) of each token, over the logits of all ranks: [tokens], the same on every
/// rank, of the logits' type.
/// @param logits      [.., columns], as vocabulary_parallel_cross_entropy() takes them; not changed.
/// @param vocabulary  the tokens that this rank has.
/// Collective over tp.
/// Cost: two all-reduces of one element per token.
[[nodiscard]] Tensor vocabulary_log_sums(const Tensor& logits, Range vocabulary,
                                         const Communicator& tp);

/// @brief Adds the z-loss's gradient, 2 weight log_sum softmax / normalizer, to that of the cross-entropy.
/// @param d_logits    what vocabulary_parallel_cross_entropy() has left of the logits.
/// @param targets     its targets; a token without one has no z-loss either.
/// @param log_sums    vocabulary_log_sums() of the logits.
/// @param normalizer  as the cross-entropy's.
/// @return weight log_sum^2, summed over tokens and divided by the normaliser.
double add_vocabulary_z_loss(const Tensor& d_logits, const Tensor& targets, Range vocabulary,
                             const Tensor& log_sums, double weight, double normalizer);

}  // namespace ultra::tensor_parallel
