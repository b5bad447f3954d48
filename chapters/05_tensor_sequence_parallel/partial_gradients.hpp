#pragma once
/// @file
/// The end of a step's gradients: what several ranks hold is added up, and the norm is everybody's.
///
/// Most parameters are on one rank of tp only. Norm weights are on all of them; with sequence
/// parallelism each rank has the gradient that its tokens give. Key/value heads are on several ranks when
/// there are more ranks than heads; each has the gradient that its query heads give. Both are
/// nn::CopyGradients::kPartial, and have to be added up once per step: after all micro-batches and after
/// the average over data-parallel replicas, or before it: sums can be exchanged.
///
/// Exercise 05.5 (`./workbook check 05.5`).
/// Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2; Megatron-LM's finalize_model_grads.

#include <span>

#include "common/comm/communicator.hpp"
#include "common/train/update.hpp"

namespace ultra::tensor_parallel {

/// @brief Adds up the gradients of parameters of which several ranks hold copies that have a part of the
/// gradient each. The others are left alone.
/// @param pieces  of this rank; those of parameters with copies are the same on all ranks that hold them.
/// @param groups  the ranks that hold the same copies, for each number of copies that there is: a
/// parameter with c copies, nn::Copies::count, belongs to the group of c ranks.
/// Collective over all groups.
/// Cost: one all-reduce for each group that has such gradients, of all of them together.
void sum_partial_gradients(std::span<const train::GradientPiece> pieces,
                           std::span<const Communicator> groups);

/// @brief Euclidean norm of a gradient that stands in pieces on several ranks, the same on all of them.
///
/// Every element counts once, on however many ranks it is: of copies, the first counts.
/// @param pieces  this rank's, complete.
/// @param ranks   those that have the gradient together.
/// Collective over ranks.   Cost: an all-reduce of one f64.
[[nodiscard]] double norm_over_ranks(std::span<const train::GradientPiece> pieces,
                                     const Communicator& ranks);

}  // namespace ultra::tensor_parallel
