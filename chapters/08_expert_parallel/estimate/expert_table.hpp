#pragma once
/// @file
/// The tables behind a training with experts: what a rank took and sent beside its closed forms,
/// and how evenly the experts were used.

#include <string>

#include "chapters/08_expert_parallel/estimate/expert_estimate.hpp"
#include "chapters/08_expert_parallel/options/expert_parallel_options.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::expert_parallel {

/// @brief Checks the name of a model without experts for --estimate.
/// @throws ConfigError that lists all names, those of models with experts among them.
void expect_known_model(const std::string& name);

/// @brief How a rank of a training shares its work.
[[nodiscard]] LocalMoe rank_share_of(const train::Setup& setup,
                                     const ExpertParallelOptions& options);

/// @brief The question that --estimate asks with these flags.
/// @throws ConfigError for an unknown model, and a published one to which flags give other experts.
[[nodiscard]] ExpertRequest request_of(const train::Setup& setup,
                                       const ExpertParallelOptions& options);

/// @brief Rank 0's peaks by category, predicted for evenly spread tokens and measured; what it
/// sends to other ranks' experts in a step; and the share of the choices of each layer's experts in
/// the last step.
///
/// States are averages over the ranks that share them (ZeRO); without sharding they are exact. Of a
/// stage of a pipeline nothing is predicted.
[[nodiscard]] std::string format_expert_table(const train::Setup& setup,
                                              const ExpertParallelOptions& options,
                                              const train::TrainResult& result);

/// @brief The shares of tokens that the experts of each layer got in the last step; empty when an
/// earlier run has made it.
[[nodiscard]] std::string format_loads(const train::TrainResult& result, std::size_t layers);

}  // namespace ultra::expert_parallel
