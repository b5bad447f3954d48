#pragma once
/// @file
/// Top-k routing: which experts each token uses, and how much of each.
///
/// Exercise 08.1 (`./workbook check 08.1`). Body: solutions/08_expert_parallel/top_k_routing.cpp.
/// Source: Shazeer et al. 2017, arXiv 1701.06538, section 2.1; Mixtral, arXiv 2401.04088, section
/// 2.1; DeepSeek-V3, arXiv 2412.19437, section 2.1.2, equations 13 to 16.

#include <cstddef>

#include "chapters/08_expert_parallel/moe_config.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::expert_parallel {

/// @brief What a router has decided.
struct Routing {
  Tensor experts;  ///< [tokens, top_k] of i32, best first, each expert of a token once
  Tensor weights;  ///< [tokens, top_k] of each of them in the output
};

/// @brief The experts with the highest selection scores, and the weights of their outputs.
///
/// Biases move the selection and nothing else. Of equal scores the expert of the lower number wins,
/// on every rank alike.
/// @param affinities  [tokens, experts] of each token to each expert, positive.
/// @param biases      [experts] of the selection, of the same type; undefined: none.
/// @param top_k       at most the number of experts.
/// @return the weights of each token add up to one; with top_k 1 the weight is the affinity itself
/// (Switch transformers, arXiv 2101.03961, equation 2), or the router would never learn.
[[nodiscard]] Routing top_k_routing(const Tensor& affinities, const Tensor& biases,
                                    std::size_t top_k);

}  // namespace ultra::expert_parallel
