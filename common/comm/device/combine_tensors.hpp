#pragma once
/// @file
/// Several tensors of one rank combined as a collective combines those of its ranks.

#include <span>

#include "common/comm/collectives/reduce_op.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::comm {

/// @brief into = from[0] op from[1] op ... element by element, in this order: see combine_all.
/// @param into  contiguous, of one shape, type and device with all of `from`; may be one of them.
/// @param from  at least one.
void combine_tensors(ReduceOp op, const Tensor& into, std::span<const Tensor> from);

}  // namespace ultra::comm
