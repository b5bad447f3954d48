#pragma once
/// @file
/// The flat arrays of chapter 04 that the tensors of a rank stand in, before there is a model.

#include <cstddef>
#include <vector>

#include "chapters/04_zero/flat_layout.hpp"
#include "chapters/11_five_d/composition/rank_tensors.hpp"

namespace ultra::five_d {

/// @brief Tensors of one data group that travel together, and how their array is cut.
struct FlatArray {
  zero::FlatLayout layout;  ///< of the array
  std::size_t chunk = 0;    ///< of the rank's model
  std::size_t part = 0;     ///< of the chunk: of its first tensor
};

/// @brief Ranks of a data group.
struct Sharing {
  std::size_t ranks = 1;   ///< that add up gradients
  std::size_t shards = 1;  ///< of them that share one copy of the states
  std::size_t copies = 1;  ///< ranks / shards
};

/// @brief Who shares the states of a data group.
[[nodiscard]] Sharing sharing_of(const train::Setup& setup, DataGroup group);

/// @brief The arrays of a data group, in backward order: one for each part of the model with
/// --zero 3, else buckets.
[[nodiscard]] std::vector<FlatArray> flat_arrays(const train::Setup& setup,
                                                 const std::vector<RankTensor>& tensors,
                                                 DataGroup group);

}  // namespace ultra::five_d
