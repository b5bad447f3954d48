#pragma once
/// @file
/// The table that sets what each stage of a run took beside the closed forms.

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/estimate/stage_memory.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::pipeline_parallel {

/// @brief How the ranks of a program's stages share sequences and matrices.
[[nodiscard]] context_parallel::LocalModel rank_share(const train::Setup& setup);

/// @brief The model of a training in parts.
/// @param layers  of each part.
[[nodiscard]] StagedModel staged_model(const train::Setup& setup,
                                       std::span<const std::size_t> layers);

/// @brief For the first rank of each stage, in its own row: its layers, how many micro-batches it
/// held at a time, and its peaks of parameters, gradients, optimizer states and activations,
/// predicted and measured.
///
/// States are averages over the ranks that share them (ZeRO); without sharding they are exact.
/// Layers that were dealt out by measured seconds have no prediction.
[[nodiscard]] std::string format_pipeline_table(const train::Setup& setup,
                                                const PipelineOptions& options,
                                                const PipelineSchedule& schedule,
                                                const train::TrainResult& result);

}  // namespace ultra::pipeline_parallel
