#pragma once
/// @file
/// How far a training scales: strong and weak scaling to thousands of GPUs, what failures take, and what a
/// whole training costs.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "chapters/11_five_d/planner/search/reasons.hpp"
#include "chapters/11_five_d/planner/time/prediction.hpp"
#include "common/base/json.hpp"

namespace ultra::planner {

/// @brief What failures take of a training on so many GPUs.
///
/// With checkpoints of D seconds every T seconds and a failure every M seconds, D / T + T / 2M + R / M
/// of the time is lost: to writing, to steps done again, to restarting. T = sqrt(2 D M) loses least.
/// Source: Young 1974, as chapter 04's text has it.
struct Goodput {
  double checkpoint_seconds = 0;  ///< D: parameters and optimizer states, written by all nodes
  double failure_seconds = 0;     ///< M: mean time between failures of the whole cluster
  double interval_seconds = 0;    ///< T
  double kept = 1;                ///< of the time: 1 less what is lost, at least 0
};

/// @brief The goodput of a model's training.
/// @param gpus  all; fewer than a node count as one node.
[[nodiscard]] Goodput goodput(const Question& question, std::size_t gpus);

/// @brief One number of GPUs.
struct ScalingStep {
  std::size_t gpus = 1;                 ///< of it
  std::size_t global_batch = 1;         ///< sequences
  std::optional<Prediction> best = {};  ///< the fastest layout; none fits: absent
  double efficiency = 0;                ///< tokens per second and GPU over those of the first step
  Goodput failures = {};                ///< what they leave
  std::string_view first_loss = {};     ///< the largest loss, failures among them
};

/// @brief Whether the batch grows with the GPUs.
enum class ScalingKind : std::uint8_t {
  kStrong,  ///< the batch stays
  kWeak,    ///< the batch grows with the GPUs
};

/// @brief The best layout for every number of GPUs.
/// @param gpus  ascending; of weak scaling the first has the question's batch.
/// @throws Interrupted when the program is told to stop.
[[nodiscard]] std::vector<ScalingStep> scaling_curve(const Question& question,
                                                     const SearchSpace& space, ScalingKind kind,
                                                     const std::vector<std::size_t>& gpus);

/// @brief A curve as a JSON array.
[[nodiscard]] Json curve_to_json(const std::vector<ScalingStep>& curve);

/// @brief Throughput and memory over tp and pp, the rest as fast as can be, as the Playbook's pictures
/// of benchmarks have it: {"tp": [...], "pp": [...], "cells": [...]}; a cell that does not fit has its
/// memory only.
/// @throws Interrupted when the program is told to stop.
[[nodiscard]] Json heat_map(const Question& question, const SearchSpace& space);

/// @brief A training of so many tokens.
struct TrainingCost {
  double days = 0;  ///< if nothing fails
  double real_days =
      0;  ///< with checkpoints, and with what failures undo: days over goodput().kept
  double gpu_hours = 0;  ///< of real_days
  double dollars = 0;    ///< of gpu_hours
};

/// @brief The cost of a training with a layout.
/// @param tokens   of the whole training.
/// @param dollars  for an hour of a GPU.
[[nodiscard]] TrainingCost training_cost(const Question& question, const Prediction& prediction,
                                         double tokens, double dollars);

/// @brief The costs of a plan's layouts, a line each.
/// @param dollars  0: no money is shown.
[[nodiscard]] std::string costs_to_text(const Question& question,
                                        const std::vector<Prediction>& best, double tokens,
                                        double dollars);
/// @brief The same: [{"days", "real_days", "gpu_hours", "dollars"}].
[[nodiscard]] Json costs_to_json(const Question& question, const std::vector<Prediction>& best,
                                 double tokens, double dollars);

}  // namespace ultra::planner
