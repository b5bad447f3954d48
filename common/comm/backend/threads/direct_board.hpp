#pragma once
/// @file
/// DirectBoard: where the ranks of a group show each other their tensors.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/comm/engine/operation.hpp"
#include "common/comm/engine/roll_call.hpp"

namespace ultra::comm::threads {

class Bell;

/// @brief What one member shows for one operation.
struct alignas(64) Showing {
  /// Tensors up to this size are copied here, so that their owner need not wait for the readers.
  static constexpr std::size_t kStagedBytes = 4096;

  std::atomic<std::uint64_t> arrived{0};  ///< 1 + the operation that the rest belongs to
  std::atomic<std::uint64_t> working{0};  ///< 1 + the operation for which it touches others' memory
  std::atomic<std::uint64_t> done{0};     ///< 1 + the last operation in which its part is done
  std::atomic<std::uint64_t> left{0};     ///< 1 + the last one it gave up: its memory may be gone
  const CollectiveCall* call = nullptr;   ///< its tensors
  gpu::Event ready;                       ///< on a device: when others may touch them
  gpu::Event finished;                    ///< on a device: when its part is done; set before `done`
  Answer answer;  ///< what it calls; the label's text, which is seldom read, in the next cache line
  alignas(64) std::array<std::byte, kStagedBytes> staged;  ///< a small tensor's elements
};

/// @brief What the members of a group show each other, for a few operations at a time.
class DirectBoard {
 public:
  /// @param world_ranks  of the members.
  /// @param bells        of the members.
  DirectBoard(std::vector<int> world_ranks, std::vector<Bell*> bells);

  /// @brief Number of members.
  [[nodiscard]] int size() const { return static_cast<int>(bells_.size()); }
  /// @brief The members' ranks in the world.
  [[nodiscard]] const std::vector<int>& world_ranks() const { return world_ranks_; }
  /// @brief What a member shows for the group's operation `number`.
  [[nodiscard]] Showing& showing(std::uint64_t number, int member) {
    return slots_[number % kSlots][static_cast<std::size_t>(member)];
  }
  /// @brief Rings all bells but the caller's.
  void ring_others(int caller);

 private:
  // A member is at most one operation ahead of another, so two would do.
  static constexpr std::size_t kSlots = 4;

  std::vector<int> world_ranks_;
  std::vector<Bell*> bells_;
  std::array<std::unique_ptr<Showing[]>, kSlots> slots_;
};

}  // namespace ultra::comm::threads
