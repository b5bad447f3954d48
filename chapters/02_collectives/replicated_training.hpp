#pragma once
/// @file
/// Replicated training: the simplest data parallelism, by which this chapter shows that N ranks
/// compute what one rank computes.
///
/// Every rank holds the whole model and takes 1/N of each global batch; after the backward pass the
/// gradients are averaged, tensor by tensor. Chapter 03 does the same well: in buckets, while the
/// backward pass still runs.
/// Source: Li et al. 2020, "PyTorch distributed", arXiv 2006.15704, sec. 3.2.2, the naive solution.

#include <cstddef>

#include "common/comm/communicator.hpp"
#include "common/train/trainer.hpp"

namespace ultra::collectives {

/// @brief Checks that a global batch can be dealt out in equal shares of whole micro-batches.
/// @throws ConfigError with the equation and its values.
void expect_equal_shares(std::size_t global_batch, std::size_t micro_batch, int ranks);

/// @brief The sequences of the global batch that a rank takes: rank r of N those from r B/N on.
[[nodiscard]] Range share_of(std::size_t global_batch, const Communicator& ranks);

/// @brief Averages the gradients of all parameters over the ranks, one all-reduce each.
///
/// Collective. Cost: 2 (N-1)/N gradient bytes sent per rank, by a ring.
void average_gradients(const nn::Model& model, const Communicator& ranks);

/// @brief The average of a number over the ranks, the same on each. Collective.
[[nodiscard]] double average(double number, const Device& device, const Communicator& ranks);

/// @brief Forward and backward of replicated training, with chapter 01's gradient accumulation for
/// the rank's share.
///
/// The mean over the global batch is the average of the ranks' means, because their shares are
/// equal. So the loss and the gradients end up as one rank would have them, but for rounding: the
/// same on all ranks, bit for bit.
/// @param micro_batch  sequences per forward and backward pass on each rank.
/// @throws ConfigError (when called) unless expect_equal_shares holds.
[[nodiscard]] train::ForwardBackward replicated_forward_backward(const Communicator& ranks,
                                                                 std::size_t micro_batch);

}  // namespace ultra::collectives
