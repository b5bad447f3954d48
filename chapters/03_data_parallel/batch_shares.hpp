#pragma once
/// @file
/// Shares of the batch: each replica takes some sequences of the global batch, in micro-batches.
///
/// Exercise 03.1 (`./workbook check 03.1`). Body: solutions/03_data_parallel/batch_shares.cpp.
/// Source: Li et al. 2020, "PyTorch distributed", arXiv 2006.15704, section 3.2.1. Deviation: there
/// each replica takes the mean over its own tokens, and gradients are averaged; that is the mean
/// over the batch only if all shares are equal. Here gradients are added up, and are right for any
/// shares.

#include <cstddef>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/train/micro_batch.hpp"

/// @brief Chapter 03: replicas of a model that share a batch and add up their gradients.
namespace ultra::data_parallel {

/// @brief The sequences of the global batch that a replica takes: consecutive ones, shares that
/// differ by at most one sequence, the larger ones first.
/// @throws ConfigError when a replica would get none, with the numbers; on every replica.
[[nodiscard]] Range share_of_batch(std::size_t global_batch, const Communicator& dp);

/// @brief Cuts a share of any size into micro-batches: the same number on every replica.
///
/// The last micro-batch of a share takes what is left. A replica that has no sequences left while
/// others do takes part in their passes without adding anything: layers may communicate, so nobody
/// may stop earlier.
/// @param micro_batch  sequences per pass; at least 1.
/// @throws ConfigError when micro_batch is 0.
[[nodiscard]] std::vector<train::MicroBatch> cut_share(const train::LocalBatch& share,
                                                       std::size_t micro_batch);

}  // namespace ultra::data_parallel
