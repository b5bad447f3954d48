#pragma once
/// @file
/// Flat layout: tensors one after the other in one array, cut into one shard per rank.
///
/// A tensor of 7 rows does not divide by 4 ranks, and whole tensors are of very different size. So
/// nobody shards tensors: they are laid out flat, the array is padded to a multiple of the ranks, and
/// every rank owns an equal part of it, whatever tensors that part begins and ends in.
///
/// Exercise 04.1 (`./workbook check 04.1`). Body: solutions/04_zero/flat_layout.cpp.
/// Source: Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, section 5; the flat parameters are those
/// of Zhao et al. 2023, "PyTorch FSDP", arXiv 2304.11277, section 3.2.1.

#include <cstddef>
#include <span>
#include <vector>

#include "common/tensor/shape.hpp"

/// @brief Chapter 04: replicas that no longer hold everything: optimizer states, gradients and
/// parameters in shards.
namespace ultra::zero {

/// @brief Where tensors lie in a flat array, and how the array is cut.
struct FlatLayout {
  std::vector<Range> places;  ///< of each tensor, one after the other
  std::size_t count = 0;      ///< elements of all tensors
  std::size_t padded = 0;  ///< elements of the array: count, and less than one per rank to fill up
  std::size_t shard = 0;   ///< elements of each rank's shard: padded / ranks
  bool operator==(const FlatLayout&) const = default;
};

/// @brief A part of one tensor that lies in a shard.
struct Piece {
  std::size_t tensor = 0;  ///< its number
  Range elements;          ///< of the tensor, row-major
  Range place;             ///< where they lie in the shard
  bool operator==(const Piece&) const = default;
};

/// @brief Lays tensors out one after the other, and pads the array so that `ranks` divide it.
/// @param counts  elements of each tensor; may be 0.
/// @param ranks   at least 1.
[[nodiscard]] FlatLayout flat_layout(std::span<const std::size_t> counts, int ranks);

/// @brief The part of the array that a rank owns: [rank * shard, (rank + 1) * shard).
[[nodiscard]] Range shard_range(const FlatLayout& layout, int rank);

/// @brief What a rank's shard holds, in its order: pieces of tensors, none of them empty. What they
/// leave of the shard is padding.
[[nodiscard]] std::vector<Piece> pieces_of(const FlatLayout& layout, int rank);

}  // namespace ultra::zero
