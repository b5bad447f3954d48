#pragma once
/// @file
/// ShardReducer: ZeRO-2's gradients, which exist as shards only.
///
/// The backward pass makes the gradients of one group of parameters after the other. As soon as a
/// group is complete it is reduce-scattered, this rank's shard of the sum is kept, and the memory
/// of the whole group is free for another. So at most two whole groups are in memory at any time,
/// one under way and one that fills up, and never all of them.
///
/// The price: a gradient of which only shards are kept cannot wait for the next micro-batch. Every
/// micro-batch communicates.
///
/// Exercise 04.3 (`./workbook check 04.3`). Body: solutions/04_zero/shard_reducer.cpp.
/// Source: Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, sections 5.2 and 7.2.1.

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "chapters/04_zero/flat_layout.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/work.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief Whether communication goes on while the rank computes.
enum class Overlap {
  kOff,  ///< the rank waits for each operation at once
  kOn,   ///< until it needs the result
};

/// @brief What a reducer reduces.
struct ReducedGroup {
  std::string name;   ///< for messages and timelines
  FlatLayout layout;  ///< of its flat array
};

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

/// @brief Reduces groups of gradients by reduce-scatter, in memory for two groups.
///
/// Memory: the shards, as MemoryCategory::kGradients; two groups (with Overlap::kOff one), as
/// MemoryCategory::kCommunication, and what the reduce-scatter needs.
/// Cost: (S-1)/S bytes of all groups sent per rank and pass.
/// @see QuantizedReducer, whose groups travel in another form, in the same order.
class ShardReducer : public GroupReducer {
 public:
  /// @brief Reduces nothing yet.
  /// @param groups  in the order in which the backward pass makes them.
  /// @param shards  the ranks that share the result.
  ShardReducer(std::vector<ReducedGroup> groups, Communicator shards, Device device, DType dtype,
               Overlap overlap)
      : groups_(std::move(groups)),
        comm_(std::move(shards)),
        device_(std::move(device)),
        dtype_(dtype),
        overlap_(overlap),
        shards_(groups_.size()) {}

  /// @copybrief GroupReducer::open
  /// All but one of the groups that are under way have been taken in when it returns.
  [[nodiscard]] Tensor open(std::size_t group) override;
  void flush(std::size_t group) override;
  void finish() override;
  [[nodiscard]] const Tensor& shard(std::size_t group) const override { return shards_.at(group); }
  void drop() override { shards_.assign(shards_.size(), Tensor()); }

 protected:
  /// @brief Waits for the group that is under way for longest, and adds its sum to the shard.
  virtual void drain_oldest();

  /// @brief A group on its way.
  struct UnderWay {
    std::size_t group;  ///< its number
    Tensor own;         ///< this rank's part of the group's memory, which it keeps alive
    Work work;          ///< ends when `own` has arrived
  };

  // Also of reducers whose groups travel in another form.
  std::vector<ReducedGroup> groups_;  ///< in backward order
  Communicator comm_;                 ///< the ranks that share the result
  Device device_;                     ///< of the gradients
  DType dtype_;                       ///< likewise
  Overlap overlap_;                   ///< whether the rank computes meanwhile
  Tensor open_;                       ///< the memory of the group that fills up
  std::deque<UnderWay> under_way_;    ///< groups on their way, the oldest first

 private:
  std::vector<Tensor> shards_;  // by group; undefined: nothing taken in since drop()
};

}  // namespace ultra::zero
