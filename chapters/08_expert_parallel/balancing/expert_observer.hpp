#pragma once
/// @file
/// What is done with the experts' loads after each step: figures for the metrics, and new biases.
///
/// Source: Wang et al. 2024, "Auxiliary-loss-free load balancing", arXiv 2408.15664, algorithm 1;
/// DeepSeek-V3, arXiv 2412.19437, section 2.1.2.

#include <cstddef>
#include <memory>
#include <span>

#include "chapters/08_expert_parallel/moe_config.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/step.hpp"

namespace ultra::expert_parallel {

/// @brief Moves the bias of each expert that got more than the mean down by `rate`, and of each
/// that got less up.
/// @param biases  [experts], in place.
/// @param loads   [experts] choices of the step, of all ranks.
void move_biases(const Tensor& biases, std::span<const double> loads, double rate);

/// @brief Adds the loads of all ranks up after each step, moves the biases, and notes for the
/// metrics: "expert_load.L", the experts' shares of the choices of layer L, and "dropped_share", by
/// layer.
/// Collective over the plan's ranks.
/// Cost: an all-reduce of (experts + 1) layers f64 per step.
[[nodiscard]] std::unique_ptr<train::StepObserver> observe_experts(const train::ModelScope& scope,
                                                                   const MoeConfig& config);

}  // namespace ultra::expert_parallel
