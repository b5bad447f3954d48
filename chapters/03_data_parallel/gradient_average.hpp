#pragma once
/// @file
/// Data parallelism at its simplest: each replica takes its share of the global batch, and the
/// replicas average their gradients when the backward pass is over.
///
/// Exercise 03.1 (`./workbook check 03.1`).
/// Source: Li et al. 2020, "PyTorch distributed", arXiv 2006.15704, section 3.2.1.

#include <cstddef>

#include "common/comm/communicator.hpp"
#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"

/// @brief Chapter 03: replicas of a model that share a batch and average their gradients.
namespace ultra::data_parallel {

/// @brief The sequences of the global batch that a replica takes: consecutive ones, shares that
/// differ by at most one sequence, the larger ones first.
/// @throws ConfigError when a replica would get none, with the numbers; on every replica.
[[nodiscard]] Range share_of_batch(std::size_t global_batch, const Communicator& dp);

/// @brief What each replica divides its summed token losses by: the global batch's tokens over the
/// number of replicas.
///
/// Then the *average* over the replicas is the mean over the global batch, for losses and for
/// gradients, also where the shares differ in size. It is the share's own number of tokens where
/// they do not.
[[nodiscard]] double loss_normalizer(const data::Sampler& global, const Communicator& dp);

/// @brief Averages the gradients of all parameters over the replicas, one all-reduce each, in place.
///
/// @param model  every parameter has a gradient.
/// Collective over dp.
/// Cost: 2 (N-1)/N gradient bytes sent per rank, in one all-reduce per parameter.
void average_gradients(const nn::Model& model, const Communicator& dp);

}  // namespace ultra::data_parallel
