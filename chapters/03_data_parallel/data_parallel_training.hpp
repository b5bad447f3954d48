#pragma once
/// @file
/// Data-parallel training: this chapter's parts put together.

#include <cstddef>

#include "chapters/03_data_parallel/gradient_sync.hpp"
#include "common/comm/communicator.hpp"
#include "common/train/model_worker.hpp"

namespace ultra::data_parallel {

/// @brief A replica's part of a step: its share of the global batch, in micro-batches, and the
/// averages of the gradients.
/// @return this replica's loss; the average over the replicas is that of the global batch.
/// @throws ConfigError when a replica would get no sequence; what the synchronisation throws.
/// Collective over dp.
/// @see share_of_batch, loss_normalizer, accumulate_and_sync
[[nodiscard]] double pass_own_share(nn::Model& model, const data::Sampler& global, std::size_t step,
                                    std::size_t micro_batch, const Communicator& dp,
                                    GradientSync& sync);

/// @brief Forward and backward of a step on replicas: each takes its share of the global batch, in
/// micro-batches, and their gradients and losses are averaged.
///
/// Afterwards loss and gradients are those of one rank, but for rounding: the same on all replicas,
/// bit for bit. Gradients are dropped between steps, as train::ModelWorker does.
/// @param dp           the replicas.
/// @param micro_batch  sequences per pass on each replica; need not divide its share.
/// @param make_sync    makes a model's synchronisation in its first step; it lives as long as the
/// model.
/// @throws ConfigError (when called) when a replica would get no sequence; what the synchronisation
/// throws.
/// Collective over dp (when called).
/// Cost: that of the synchronisation, once per step; and an all-reduce of one f64.
/// @see pass_own_share
[[nodiscard]] train::ForwardBackward data_parallel_forward_backward(const Communicator& dp,
                                                                    std::size_t micro_batch,
                                                                    MakeGradientSync make_sync);

}  // namespace ultra::data_parallel
