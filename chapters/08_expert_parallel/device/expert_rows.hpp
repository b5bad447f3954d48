#pragma once
/// @file
/// The permutation of tokens, and the gradients of their weights, where the host does not see the tokens:
/// what the router has decided is on the host, and the rows stay on the device. What follows in the source
/// is part of the answers to exercises 08.2 and 08.5.

#include "chapters/08_expert_parallel/token_permutation.hpp"
#include "chapters/08_expert_parallel/top_k_routing.hpp"

namespace ultra::expert_parallel {

/// @brief Whether a tensor is where these functions work.
[[nodiscard]] inline bool is_on_device(const Tensor& x) { return has_streams(x.device().kind()); }

/// @brief to_expert_order() on a device with streams; nobody waits.
/// @param weights  on the host, or undefined.
[[nodiscard]] Tensor to_expert_order_on_device(const Tensor& x, const Tensor& weights,
                                               const ExpertOrder& order);

/// @brief from_expert_order() on a device with streams; nobody waits.
/// @param weights  on the host, or undefined.
[[nodiscard]] Tensor from_expert_order_on_device(const Tensor& rows, const Tensor& weights,
                                                 const ExpertOrder& order);

/// @brief combine_weights_backward() of rows on a device with streams; the host waits once, for a number
/// per row.
/// @param routing     on the host.
/// @param affinities  on the host.
/// @return on the host.
[[nodiscard]] Tensor combine_weights_backward_on_device(const Tensor& d_y, const Tensor& rows,
                                                        const ExpertOrder& order,
                                                        const Routing& routing,
                                                        const Tensor& affinities);

}  // namespace ultra::expert_parallel
