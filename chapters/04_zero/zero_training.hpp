#pragma once
/// @file
/// Training with ZeRO: this chapter's parts put together.

#include <cstddef>
#include <functional>

#include "chapters/03_data_parallel/gradient_sync.hpp"
#include "chapters/04_zero/checkpoints/training_state.hpp"
#include "chapters/04_zero/sharded_model.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/data/dataset.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "common/optim/adamw.hpp"
#include "common/train/model_worker.hpp"

namespace ultra::zero {

/// @brief A replica's part of a step, with as many passes on each rank: where every pass communicates,
/// a rank whose share is smaller must not end earlier.
///
/// A rank that has no sequence left repeats its last one with a weight of zero.
/// @param global       draws the global batch; each rank takes its data_parallel::share_of_batch.
/// @param step         0 for the first.
/// @param micro_batch  sequences per pass; need not divide the share.
/// @return this replica's loss; the average over the replicas is that of the global batch.
/// @throws ConfigError when a replica would get no sequence.
/// Collective over dp.
[[nodiscard]] double pass_in_lockstep(nn::Model& model, const data::Sampler& global,
                                      std::size_t step, std::size_t micro_batch,
                                      const Communicator& dp, data_parallel::GradientSync& sync);

/// @brief The parts of a sharded training that do not depend on how it is sharded.
struct ZeroParts {
  nn::LayerFactory& factory;    ///< makes the model's layers; outlives the worker
  std::size_t micro_batch = 1;  ///< sequences per pass on each rank
  optim::AdamWUpdate adamw;     ///< of one tensor
  /// Changes the passes of a rank, or its update; may be empty.
  std::function<train::ForwardBackward(train::ForwardBackward)> change_passes;
  std::function<train::Update(train::Update)> change_update;  ///< likewise
  KeepState keep_state = {};  ///< what is done with the training's state; may be empty
  /// Completes the gradients of a rank that has a part of the model only; empty: it has all of it.
  train::FinishGradients finish_gradients = {};
};

/// @brief A rank's worker in a training with ZeRO-1, 2 or 3.
///
/// Losses, gradient norms and weights are those of plain data parallelism.
/// Offloading changes neither: the bits are the same.
/// The worker throws NumericError when the loss or the gradient norm is not finite. Making it throws
/// FileError, the same on all ranks, when a rank has no storage for what it shall offload; collective.
[[nodiscard]] train::MakeWorker zero_worker(const ShardGroups& ranks, const ZeroSettings& settings,
                                            const ZeroParts& parts);

}  // namespace ultra::zero
