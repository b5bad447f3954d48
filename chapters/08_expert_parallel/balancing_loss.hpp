#pragma once
/// @file
/// The balancing loss: a term that grows when some experts get more tokens than others.
///
/// How many tokens choose an expert is a count, and has no gradient; the probability that they give
/// it has one. The term takes both, sequence by sequence: a sequence is the same on every layout,
/// the tokens that a rank happens to have together are not.
///
/// Exercise 08.4 (`./workbook check 08.4`). Body: solutions/08_expert_parallel/balancing_loss.cpp.
/// Source: Fedus et al. 2021, "Switch transformers", arXiv 2101.03961, section 2.2, equations 4 to
/// 6; DeepSeek-V3, arXiv 2412.19437, section 2.1.2, equations 17 to 20, for top-k and sequences.

#include <cstddef>

#include "common/tensor/tensor.hpp"

namespace ultra::expert_parallel {

/// @brief What the term is scaled by.
struct BalancingTerm {
  double coefficient = 0;     ///< alpha: the term's weight in the loss
  std::size_t top_k = 1;      ///< choices of each token
  std::size_t seq_len = 1;    ///< tokens of a whole sequence, without padding
  std::size_t sequences = 1;  ///< of the global batch: the term is their mean
};

/// @brief This rank's share of the term: what its tokens add. The shares of all ranks add up to it.
///
/// A router that spreads its tokens evenly has the value `coefficient`; one that sends all of them
/// to the same top_k experts, with certainty, num_experts / top_k times that.
/// @param probabilities  [batch, tokens, experts] of this rank's tokens: each token's add up to
/// one, or are zeros for padding.
/// @param choices        [batch, experts] of the same type: how often the tokens of the whole
/// sequence, on all ranks, have chosen each expert.
[[nodiscard]] double balancing_loss(const Tensor& probabilities, const Tensor& choices,
                                    const BalancingTerm& term);

/// @brief The gradient of the term with respect to the probabilities of this rank's tokens.
/// @param choices  as balancing_loss has them.
/// @param tokens   of each sequence on this rank.
/// @return [batch, tokens, experts].
[[nodiscard]] Tensor balancing_loss_backward(const Tensor& choices, std::size_t tokens,
                                             const BalancingTerm& term);

}  // namespace ultra::expert_parallel
