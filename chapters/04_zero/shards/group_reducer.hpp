#pragma once
/// @file
/// GroupReducer: groups of gradients become shards, however they travel.

#include <cstddef>

#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief Reduces groups of gradients to this rank's shards.
///
/// In each backward pass and for each group, in the same order on all ranks: open(), whose memory
/// receives the gradients, then flush() when they are complete. finish() ends a step of one or more
/// passes; drop() frees the shards.
/// @see ShardReducer, by reduce-scatter; QuantizedReducer, by all-to-all of quantised gradients
class GroupReducer {
 public:
  GroupReducer() = default;
  GroupReducer(const GroupReducer&) = delete;
  GroupReducer& operator=(const GroupReducer&) = delete;
  /// @brief A reducer moves; there are no copies of it.
  GroupReducer(GroupReducer&&) = default;
  /// @copybrief GroupReducer(GroupReducer&&)
  GroupReducer& operator=(GroupReducer&&) = default;
  virtual ~GroupReducer() = default;

  /// @brief [padded] memory for the gradients of a group.
  /// The caller must let go of it before it calls open() again.
  [[nodiscard]] virtual Tensor open(std::size_t group) = 0;

  /// @brief The gradients of the group that was opened last are complete: they are on their way.
  virtual void flush(std::size_t group) = 0;

  /// @brief Returns when all groups have been taken in.
  virtual void finish() = 0;

  /// @brief [padded / S] This rank's shard of a group: the sum over the ranks and over the passes
  /// since drop().
  [[nodiscard]] virtual const Tensor& shard(std::size_t group) const = 0;

  /// @brief Frees the shards.
  virtual void drop() = 0;
};

}  // namespace ultra::zero
