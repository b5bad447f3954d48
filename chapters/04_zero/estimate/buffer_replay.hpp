#pragma once
/// @file
/// BufferReplay: how much memory units and gradients that travel take at once, without training.

#include <cstddef>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/stages.hpp"

namespace ultra::zero {

/// @brief Bytes of the buffers that one group takes.
struct GroupBuffers {
  std::size_t whole = 0;     ///< the flat array: of weights that are gathered, or of gradients
  std::size_t gathered = 0;  ///< quantised weights of all ranks, until the unit is needed; 0: none
  std::size_t reduced = 0;   ///< quantised gradients on their way, in both directions; 0: whole is
  std::size_t sums = 0;      ///< what adding quantised gradients up takes, beside their messages
  std::size_t second_step = 0;  ///< what the exchange between nodes takes, with the sums in a node
  std::size_t shard = 0;        ///< this rank's part of the flat array
};

/// @brief Follows the passes of micro-batches through units whose weights come and go, with gradients
/// that are reduced, and notes the largest number of bytes that stand in buffers; and in shards that
/// are fetched for their gathers.
class BufferReplay {
 public:
  /// @brief Follows nothing yet.
  /// @param groups         in backward order.
  /// @param micro_batches  of a step.
  /// @param embeddings     tied: the last group is the token table, which the head reads too.
  BufferReplay(std::vector<GroupBuffers> groups, std::size_t micro_batches,
               const ZeroSettings& settings,
               memory::Embeddings embeddings = memory::Embeddings::kUntied);

  /// @brief The passes of a step with sharded parameters.
  void run_step();

  /// @brief The gradients of a group are made and reduced.
  void make_gradients(std::size_t group);

  /// @brief The largest number of bytes so far.
  [[nodiscard]] std::size_t peak() const { return peak_; }
  /// @brief The largest number of bytes of shards that stood fetched.
  [[nodiscard]] std::size_t peak_of_shards() const { return peak_of_shards_; }

 private:
  [[nodiscard]] bool completes_gradients(std::size_t use) const;
  void fetch(std::size_t unit);
  void start_gather(std::size_t unit);
  void wait(std::size_t unit);
  void release(std::size_t unit);
  void drain_oldest();
  void note(std::size_t more = 0);
  [[nodiscard]] std::size_t group_of(std::size_t unit) const { return groups_.size() - 1 - unit; }

  std::vector<GroupBuffers> groups_;
  Overlap overlap_;
  memory::Embeddings embeddings_;
  std::vector<UnitUse> uses_;  // of the step
  Prefetch fetch_;
  Prefetch prefetch_;
  std::vector<bool> fetched_;  // by unit
  std::size_t shards_ = 0;     // bytes of fetched shards
  std::size_t peak_of_shards_ = 0;
  std::vector<bool> there_;             // by unit: not in messages any more
  std::size_t weights_ = 0;             // bytes of units and of messages
  std::vector<std::size_t> under_way_;  // groups
  std::size_t peak_ = 0;
};

}  // namespace ultra::zero
