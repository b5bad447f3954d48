#pragma once
/// @file
/// `07_pipeline_parallel --estimate MODEL --pp N`: the memory of each stage as a table and as JSON.

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/01_memory/memory_options.hpp"
#include "chapters/04_zero/zero_memory.hpp"
#include "chapters/07_pipeline_parallel/estimate/stage_memory.hpp"
#include "chapters/07_pipeline_parallel/options/pipeline_options.hpp"
#include "common/train/options/options.hpp"

namespace ultra::pipeline_parallel {

/// @brief A question about a pipeline.
struct PipelineRequest {
  StagedModel model;                   ///< in parts
  PipelineSchedule schedule;           ///< of its passes
  std::vector<std::size_t> sequences;  ///< of each micro-batch
  zero::Sharding sharding;             ///< of each stage's states over dp times cp ranks
};

/// @brief The answer for one stage.
struct StageEstimate {
  std::vector<std::size_t> layers;   ///< of each of its parts
  std::size_t parameters = 0;        ///< weights of a rank
  std::size_t held = 0;              ///< activations of a micro-batch in a chunk, at a time at most
  zero::RankBytes states;            ///< what a rank keeps from step to step, stashed weights too
  std::size_t peak_activations = 0;  ///< highest bytes of activations within the step

  /// @brief Bytes of states and of the activations at their peak.
  [[nodiscard]] double total() const {
    return states.total() + static_cast<double>(peak_activations);
  }
};

/// @brief The answers, by stage.
[[nodiscard]] std::vector<StageEstimate> estimate_stages(const PipelineRequest& request);

/// @brief r: how long the average stage waits over how long it works, when links are free and parts
/// take as their operations do.
[[nodiscard]] double estimated_bubble(const PipelineRequest& request);

/// @brief What a program's flags ask for.
struct EstimateFlags {
  const memory::MemoryOptions& memory;  ///< --estimate, --precision, --recompute, --json
  const train::TrainOptions& train;     ///< --seq, --micro-batch, --global-batch
  context_parallel::LocalModel share;   ///< --cp, --tp
  zero::Sharding sharding;              ///< --zero, over dp times cp ranks
  std::size_t replicas = 1;             ///< --dp
};

/// @brief The answer to --estimate, for stdout: a table, or one JSON object with --json.
///
/// Chapter 01's estimate, for one device that holds everything, and behind it the memory per stage.
/// @throws ConfigError for an unknown model, and for one that cannot be or cannot be split.
[[nodiscard]] std::string answer(const EstimateFlags& flags, const PipelineOptions& options);

}  // namespace ultra::pipeline_parallel
