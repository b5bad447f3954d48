#pragma once
/// @file
/// The end of a step's gradients: what several ranks have a part of is added up.
///
/// Most parameters are on one rank of tp only. Norm weights are on all of them; with sequence
/// parallelism each rank has the gradient that its tokens give, and of the norms of queries and keys
/// always the one that its heads give. Key/value heads are on several
/// ranks when there are more ranks than heads; each has the gradient that its query heads give.
/// All of these are nn::CopyGradients::kPartial, and have to be added up once per step: after all
/// micro-batches, and before or after the sum over data-parallel replicas: the order of the sums
/// does not matter.
///
/// Exercise 05.5 (`./workbook check 05.5`).
/// Body: solutions/05_tensor_sequence_parallel/partial_gradients.cpp.
/// Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2; Megatron-LM's
/// finalize_model_grads.

#include <span>

#include "common/train/rank_groups.hpp"
#include "common/train/step.hpp"

namespace ultra::tensor_parallel {

/// @brief Adds up the gradients of which the ranks of a group have a part each, for every group
/// that there is. The others are left alone.
///
/// A parameter says which groups hold it and what each of their ranks has of its gradient
/// (nn::Parameter::replications). Groups are told apart by their names, not by their sizes.
/// @param pieces  of this rank; those of a parameter are the same on all ranks that hold it.
/// @param groups  the ranks of each group, by name.
/// Collective over all groups.
/// Cost: one all-reduce for each group that has such gradients, of all of them together.
void sum_partial_gradients(std::span<const train::GradientPiece> pieces,
                           const train::RankGroups& groups);

}  // namespace ultra::tensor_parallel
