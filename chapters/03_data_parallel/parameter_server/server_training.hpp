#pragma once
/// @file
/// Training with a parameter server: what each rank does in train::train().
///
/// N replicas compute gradients and K servers keep the weights and the optimizer. Synchronously
/// they compute what one rank does, and what an all-reduce among N replicas does, with the same
/// bits where no clipping is asked for. What differs is who sends what: a replica sends its
/// gradients once, an all-reduce almost twice; but a server sends its weights to N replicas, so
/// that K must grow with N.

#include <memory>

#include "chapters/03_data_parallel/parameter_server/server_settings.hpp"
#include "common/optim/update_rule.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/run/worker.hpp"

namespace ultra::data_parallel {

/// @brief Makes this rank's worker: a replica's or a server's.
///
/// A replica trains as any other, except that it makes its steps alone, that its states have no
/// optimizer and that its exchange is PushPull. The ranks put their figures together after the last
/// step (Worker::conclude); until then a step's loss is the replica's own, a step's gradient norm what
/// the rank knows of it. Then both are the same on all ranks. With ServerSettings::asynchronous each
/// replica's gradient is applied by itself, so it is made as large as a whole batch's: N times the
/// replica's share, which is the mean over its own tokens where shares are equal. The gradient norm of
/// a step is then the root of the mean of the replicas' squared norms, because there is no common
/// gradient. All replicas end with the same weights.
/// A loss or gradient norm that is not finite is a NumericError of the rank that sees it.
/// Collective over the world, before the first step.
/// Cost: per step, a replica sends its gradients (S bytes), and the servers together N S; before
/// the first step replica 0 sends S, at the end one all-reduce of two f64 per step.
/// Memory: no optimizer on replicas; on servers see sync_server() and async_server().
/// @param servers       of all ranks of the run: make_server_world(world, ...).
/// @param setup         of the replicas' trainers: make_trainer(setup, ...).
/// @param rule          of the servers' optimizer.
/// @see PushPull, ParameterServer
[[nodiscard]] std::unique_ptr<train::Worker> parameter_server_worker(
    const ServerWorld& servers, const train::Setup& setup, const train::RunContext& context,
    const optim::Rule& rule);

}  // namespace ultra::data_parallel
