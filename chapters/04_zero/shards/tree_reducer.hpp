#pragma once
/// @file
/// Shards of gradients that a tree over micro-batches adds up, where all sums follow trees.

#include <memory>
#include <vector>

#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::zero {

/// @brief Around a reducer: keeps what each backward pass gives by itself, and joins these by the places
/// of their micro-batches. The ranks have added a micro-batch up before, so it is a node of the tree over
/// sequences where the batch is dealt out micro-batch by micro-batch, and not in one piece to each rank.
/// @param schedule  of every step: in which order each chunk's backward passes come.
/// @return the reducer itself where sums do not follow trees (ops::sums_by_trees), or a step has one
/// micro-batch.
/// Memory: up to log2 of the micro-batches shards in addition.
[[nodiscard]] std::unique_ptr<GroupReducer> joined_by_tree(
    std::unique_ptr<GroupReducer> reducer, const std::vector<ParameterGroup>& groups,
    const train::StepSchedule& schedule);

}  // namespace ultra::zero
