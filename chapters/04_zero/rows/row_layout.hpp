#pragma once
/// @file
/// Row layout: every tensor cut by its rows, each for itself; the flat layout cuts all of them
/// as one array.
///
/// A rank owns ceil(rows / ranks) whole rows of each tensor; those at the end own fewer, or none.
/// What is missing is padding, so that equal shards travel in one message for all tensors. Each
/// tensor is then in pieces, one in the shard of each rank: to have it whole takes a copy.
///
/// Exercise 04.13 (`./workbook check 04.13`). Body: solutions/04_zero/row_layout.cpp.
/// Source: PyTorch's FSDP2, docs.pytorch.org, torch.distributed.fsdp.fully_shard; rows that do not divide
/// fall to ranks as torch.chunk() says.

#include <cstddef>
#include <span>
#include <vector>

#include "chapters/04_zero/flat_layout.hpp"

namespace ultra::zero {

/// @brief How tensors are cut into shards: the value of `--shards`.
enum class ShardCut {
  kFlat,  ///< as one array, without regard to where they begin and end
  kRows,  ///< each for itself, by whole rows
};

/// @brief A tensor as rows: its first dimension, and all others together.
struct TensorRows {
  std::size_t rows = 0;   ///< its first dimension
  std::size_t width = 0;  ///< elements of a row
};

/// @brief Lays tensors out one after the other, each with as many more rows as make `ranks` divide it.
///
/// `places` are those of the tensors without these rows. Padding: of each tensor
/// ranks * ceil(rows / ranks) - rows rows, less than one per rank.
/// @param ranks  at least 1.
[[nodiscard]] FlatLayout row_layout(std::span<const TensorRows> tensors, int ranks);

/// @brief What a rank's shard holds, in its order: its rows of each tensor of which it has any, each
/// tensor's followed by its padding.
[[nodiscard]] std::vector<Piece> row_pieces(std::span<const TensorRows> tensors, int ranks,
                                            int rank);

}  // namespace ultra::zero
