#pragma once
/// @file
/// The schedule that the flags of a training ask for.

#include <cstddef>

#include "chapters/07_pipeline_parallel/options/pipeline_options.hpp"
#include "common/nn/model_config.hpp"

namespace ultra::pipeline_parallel {

/// @brief What the stages do in a step: a published schedule, one that is searched for, or one from
/// a file; checked, whoever has written its lists.
///
/// A search takes the parts' costs from operations_of(), with layers dealt out evenly and free
/// links: the same on every rank, without communication. It looks for no more parts than there are
/// layers, or numbers in --stage-split.
/// @throws ConfigError when there is none for so many stages and micro-batches, with what to
/// change.
[[nodiscard]] PipelineSchedule chosen_schedule(const PipelineOptions& options,
                                               const nn::ModelConfig& model,
                                               std::size_t micro_batches);

}  // namespace ultra::pipeline_parallel
