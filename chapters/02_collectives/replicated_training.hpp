#pragma once
/// @file
/// Replicated training: the simplest data parallelism, by which this chapter shows that N ranks
/// compute what one rank computes.
///
/// Every rank holds the whole model and takes 1/N of each global batch; after the backward pass the
/// gradients are added up, tensor by tensor. Chapter 03 does the same well: in buckets, while the
/// backward pass still runs.
/// Source: Li et al. 2020, "PyTorch distributed", arXiv 2006.15704, sec. 3.2.2, the naive solution.

#include <cstddef>
#include <memory>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/nn/parameter.hpp"
#include "common/train/gradients/gradient_exchange.hpp"

namespace ultra::collectives {

/// @brief Checks that a global batch can be dealt out in equal shares of whole micro-batches.
/// @throws ConfigError with the equation and its values.
void expect_equal_shares(std::size_t global_batch, std::size_t micro_batch, int ranks);

/// @brief The sequences of the global batch that a rank takes: rank r of N those from r B/N on.
/// @throws ConfigError when N does not divide B.
[[nodiscard]] Range equal_share(std::size_t global_batch, const Communicator& ranks);

/// @brief Adds up the gradients of all parameters over the ranks, one all-reduce each, in place.
/// @param parameters  each has a gradient.
/// Collective. Cost: 2 (N-1)/N gradient bytes sent per rank, by a ring.
void sum_gradients(const std::vector<nn::Parameter*>& parameters, const Communicator& ranks);

/// @brief sum_gradients() when the backward pass is over.
///
/// Every token's loss is divided by the tokens of the global batch, so the sum over the ranks is
/// what one rank would have: the same on all ranks, bit for bit.
/// @param parameters  outlive the result's use.
[[nodiscard]] std::unique_ptr<train::GradientExchange> sum_after_backward(
    std::vector<nn::Parameter*> parameters, const Communicator& ranks);

}  // namespace ultra::collectives
