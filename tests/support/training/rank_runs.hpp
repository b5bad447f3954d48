#pragma once
/// @file
/// Quiet training runs on several ranks, threads or processes, and how near two of them are.

#include <functional>
#include <string>
#include <vector>

#include "common/comm/run_ranks.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::test {

/// @brief Trains on the ranks of `world`, with what a test puts into this rank's steps.
train::TrainResult train_replicated(const train::TrainOptions& options, const Communicator& world,
                                    const Put& put = {});

/// @brief A world of this rank alone, in which it can train by itself.
[[nodiscard]] Communicator alone(const Communicator& world);

/// @brief Calls `fn` and keeps what it prints to itself, unless a check in it has failed.
std::string quietly(const std::function<void()>& fn);

/// @brief Calls `fn` on each rank, quietly; what fails is followed by `what` has run.
void run_quietly(const std::string& what, int ranks, const std::function<void(Communicator&)>& fn,
                 const RankOptions& options = {});

/// @brief Expects the same numbers on all ranks, bit for bit. Collective.
void expect_same_on_all(const Communicator& world, const std::vector<double>& values);

/// @brief Losses within a relative distance, those of the tokens after next, too.
void expect_near_losses(const RankRun& actual, const RankRun& expected, double relative);

/// @brief Gradient norms within a relative distance: ranks add the squares of their parts up.
void expect_near_norms(const RankRun& actual, const RankRun& expected, double relative);

/// @brief Weights within a relative distance of each parameter's largest, and of how far the learning rates of all
/// steps together move a weight.
void expect_near_weights(const RankRun& actual, const RankRun& expected, double relative);

/// @brief Every element of the weights would be in files once.
void expect_saved_once(const RankRun& run);

/// @brief The loss of each step.
[[nodiscard]] std::vector<double> losses_of(const train::TrainResult& result);

/// @brief Loss and gradient norm of each step, one after the other, and the loss of the tokens after next.
[[nodiscard]] std::vector<double> losses_and_norms(const train::TrainResult& result);

}  // namespace ultra::test
