#pragma once
/// @file
/// The seconds that the pieces of a model take on this machine.

#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"
#include "common/train/options/options.hpp"
#include "common/train/plan.hpp"

namespace ultra::pipeline_parallel {

/// @brief Seconds of a forward and a backward pass of a micro-batch: of the token table, of a
/// block, and of the head; the least of a few tries of rank 0, on one device, without what splits
/// layers. Collective over plan.ranks(): the same on all. Communication: a broadcast of three
/// numbers.
[[nodiscard]] PieceCosts measure_pieces(const train::TrainOptions& options,
                                        const train::Plan& plan);

}  // namespace ultra::pipeline_parallel
