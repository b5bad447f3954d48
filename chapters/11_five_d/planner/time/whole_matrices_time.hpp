#pragma once
/// @file
/// What an optimizer of whole matrices takes beside its update: their products, and bringing them
/// together.

#include "chapters/11_five_d/planner/memory/stage_parameters.hpp"
#include "chapters/11_five_d/planner/time/block_time.hpp"
#include "common/replay/cluster/placement.hpp"

namespace ultra::planner {

/// @brief Newton-Schulz steps of the matrices that a rank owns, in fp32, and the exchanges there and back
/// of their parts, over the ranks that share states and over tp; 0 for a rule without whole matrices.
///
/// The matrices of a stage are dealt out evenly; without ZeRO each replica transforms all of them.
/// Source: chapters/04_zero/whole_matrices; arXiv 2502.16982, section 2.3.
/// @param held     of the stage.
/// @param sharing  the ranks that share a copy of the states; one without ZeRO.
[[nodiscard]] double whole_matrices_seconds(const Question& question, const Layout& layout,
                                            const StageParameters& held,
                                            const replay::GroupPlacement& sharing);

}  // namespace ultra::planner
