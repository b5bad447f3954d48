#pragma once
/// @file
/// The head's z-loss of a vocabulary in parts: the square of each token's log-sum-exp, around the
/// cross-entropy of exercise 05.3.
///
/// Source: Chowdhery et al. 2022, "PaLM", arXiv 2204.02311, section 5.

#include "common/comm/communicator.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::tensor_parallel {

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
