#pragma once
/// @file
/// Element runs: which elements of a whole tensor a rank's shard of it holds.

#include <cstddef>
#include <span>
#include <vector>

#include "common/tensor/shape.hpp"

namespace ultra::checkpoint {

/// @brief Elements that follow each other in a whole tensor and in a shard of it.
struct ElementRun {
  std::size_t global = 0;  ///< the first one's row-major index in the whole tensor
  std::size_t local = 0;   ///< its place in the elements that were asked for
  std::size_t count = 0;   ///< how many; at least 1
  bool operator==(const ElementRun&) const = default;
};

/// @brief Where elements of a shard stand in the whole tensor: as few runs as possible, in the order of
/// the shard.
///
/// A shard of rows is one run; a shard of columns has one per row.
/// @param whole     extents of the whole tensor.
/// @param shard     the index range of each dimension that the shard holds; empty means all of it.
/// @param elements  row-major, of the shard.
/// @throws InternalError when the shard is not inside the tensor, or the elements not inside the shard.
[[nodiscard]] std::vector<ElementRun> element_runs(const Shape& whole, std::span<const Range> shard,
                                                   Range elements);

}  // namespace ultra::checkpoint
