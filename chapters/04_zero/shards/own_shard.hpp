#pragma once
/// @file
/// The equal parts of a flat array, one for each rank.

#include "common/comm/communicator.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief Part `index` of `parts` equal ones; no copy.
/// @param array  [n]; `parts` divides n.
[[nodiscard]] Tensor part_of(const Tensor& array, int index, int parts);

/// @brief The part of a flat array that this rank of `shards` owns; no copy.
/// @param flat  [n]; the number of ranks divides n.
[[nodiscard]] Tensor own_shard(const Tensor& flat, const Communicator& shards);

}  // namespace ultra::zero
