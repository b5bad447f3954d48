#pragma once
/// @file
/// CollectiveAlgorithms: who decides which steps a collective takes.

#include <cstddef>

#include "common/comm/collectives/schedule.hpp"

namespace ultra::comm {

/// @brief Writes each collective down as a schedule for one rank; a communicator carries it out.
///
/// A schedule starts with this rank's contribution in place in Buffer::kData and ends with its
/// result there, as each member says. All ranks of a group ask with the same arguments (except for
/// their own position), so that their schedules fit together. Requires: a schedule for every group
/// size >= 1, every count (0 too) and every root.
/// Bodies: chapters/02_collectives/choice/book_algorithms.cpp.
class CollectiveAlgorithms {
 public:
  virtual ~CollectiveAlgorithms() = default;

  /// @brief [0, count) of the member at position `root` reaches everybody.
  [[nodiscard]] virtual Schedule broadcast(const Group& group, std::size_t count,
                                           int root) const = 0;
  /// @brief Position `root` ends with the reduction of all [0, count); others end with anything.
  [[nodiscard]] virtual Schedule reduce(const Group& group, std::size_t count, int root) const = 0;
  /// @brief All end with the reduction of all [0, count), bitwise the same everywhere.
  /// @param element_bytes  size of one element: small and large messages may take different ways.
  [[nodiscard]] virtual Schedule all_reduce(const Group& group, std::size_t count,
                                            std::size_t element_bytes) const = 0;
  /// @brief Each member holds its own chunk; position `root` ends with all chunks.
  [[nodiscard]] virtual Schedule gather(const Group& group, const Chunks& chunks,
                                        int root) const = 0;
  /// @brief Position `root` holds all chunks; each member ends with its own.
  [[nodiscard]] virtual Schedule scatter(const Group& group, const Chunks& chunks,
                                         int root) const = 0;
  /// @brief Each member holds its own chunk; all end with all chunks.
  [[nodiscard]] virtual Schedule all_gather(const Group& group, const Chunks& chunks) const = 0;
  /// @brief Each holds a contribution to all chunks; each ends with its own chunk reduced.
  [[nodiscard]] virtual Schedule reduce_scatter(const Group& group, const Chunks& chunks) const = 0;
  /// @brief Chunk j of `sent` (in Buffer::kInput) becomes chunk (own position) of member j's
  /// `received` (in Buffer::kData).
  [[nodiscard]] virtual Schedule all_to_all(const Group& group, const Chunks& sent,
                                            const Chunks& received) const = 0;
  /// @brief Messages of zero or one element such that nobody ends before everybody has begun.
  [[nodiscard]] virtual Schedule barrier(const Group& group) const = 0;
};

}  // namespace ultra::comm
