#pragma once
/// @file
/// Gradients of the combine weights: how a router learns.
///
/// The choice of experts has no gradient. What has one is how much of each chosen expert's output a
/// token takes; through these weights, and the sum that they are divided by, the loss reaches the
/// affinities of the chosen experts, and no others.
///
/// Exercise 08.5 (`./workbook check 08.5`). Body: solutions/08_expert_parallel/combine_weights.cpp.
/// Source: Shazeer et al. 2017, arXiv 1701.06538, section 2.1 ("trained by simple
/// back-propagation"); for normalised weights DeepSeek-V3, arXiv 2412.19437, equation 13.

#include "chapters/08_expert_parallel/token_permutation.hpp"
#include "chapters/08_expert_parallel/top_k_routing.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::expert_parallel {

/// @brief The gradient of the affinities, from the gradient of the tokens' outputs.
///
/// A choice that was dropped gave nothing to the output; its affinity was part of the sum.
/// @param d_y         [tokens, features] gradient of the weighted sums.
/// @param rows        [rows, features] outputs of the experts, in expert order.
/// @param order       of the rows: without those that were dropped.
/// @param routing     all choices, with their weights, as top_k_routing() makes them.
/// @param affinities  [tokens, experts] from which the weights were made.
/// @return [tokens, experts]: zero where an expert was not chosen.
[[nodiscard]] Tensor combine_weights_backward(const Tensor& d_y, const Tensor& rows,
                                              const ExpertOrder& order, const Routing& routing,
                                              const Tensor& affinities);

}  // namespace ultra::expert_parallel
