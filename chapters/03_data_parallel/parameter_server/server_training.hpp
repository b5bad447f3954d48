#pragma once
/// @file
/// Training with a parameter server: what each rank does in train::train().
///
/// N replicas compute gradients and K servers keep the weights and the optimizer. Synchronously they
/// compute what one rank does, and what an all-reduce among N replicas does, with the same bits where
/// no clipping is asked for. What differs is who sends what: a replica sends its gradients once, an
/// all-reduce almost twice; but a server sends its weights to N replicas, so that K must grow with N.

#include <cstddef>
#include <functional>

#include "chapters/03_data_parallel/parameter_server/server_settings.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/optim/adamw.hpp"
#include "common/train/model_worker.hpp"
#include "common/train/worker.hpp"

namespace ultra::data_parallel {

/// @brief The parts of the training that other techniques replace.
struct ServerParts {
  nn::LayerFactory& factory;                   ///< makes the replicas' layers
  std::size_t micro_batch = 1;                 ///< sequences per pass; need not divide a share
  optim::AdamWUpdate adamw = ops::adamw_into;  ///< the servers' update of one tensor
  /// Changes a replica's forward and backward passes, for example with_straggler; may be empty.
  std::function<train::ForwardBackward(train::ForwardBackward)> change;
};

/// @brief Makes a rank's worker: a replica's or a server's.
///
/// A replica's share of the global batch, its micro-batches and its loss are those of
/// data_parallel_forward_backward(). The ranks put their figures together after the last step
/// (Worker::conclude); until then a step's loss is the replica's own, a step's gradient norm what the
/// rank knows of it. Then both are the same on all ranks. With ServerSettings::asynchronous the
/// gradient norm of a step is the root of the mean of the replicas' squared norms, because there is
/// no common gradient. All replicas end with the same weights.
/// A loss or gradient norm that is not finite is a NumericError of the rank that sees it.
/// Called: collective over the world, before the first step.
/// Cost: per step, a replica sends its gradients (S bytes), and the servers together N S; before the
/// first step replica 0 sends S, at the end one all-reduce of two f64 per step.
/// Memory: no optimizer on replicas; on servers see sync_server() and async_server().
/// @param servers  of all ranks of the run: make_server_world(world, ...).
/// @param parts    its factory outlives the worker.
/// @see PushPull, ParameterServer
[[nodiscard]] train::MakeWorker parameter_server_worker(const ServerWorld& servers,
                                                        const ServerParts& parts);

}  // namespace ultra::data_parallel
