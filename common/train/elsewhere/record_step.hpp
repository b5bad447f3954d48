#pragma once
/// @file
/// record_step: a step of a rank that does not exist, written down instead of computed.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/traffic.hpp"
#include "common/gpu/meta/tape.hpp"
#include "common/tensor/memory_tracker.hpp"
#include "common/train/cli/technique.hpp"

namespace ultra::train {

/// @brief What one rank's step does, and what it keeps in memory.
struct RecordedRank {
  int rank = 0;                     ///< of the world
  std::string place;                ///< see place_of()
  std::unique_ptr<gpu::Tape> tape;  ///< the second step: the first one makes the optimizer's states
  MemoryTracker memory = {};        ///< with the peaks of that step
  std::size_t reserved_bytes = 0;   ///< that the caching allocator holds after it
  CommStats sent = {};              ///< in that step
  std::size_t parameters = 0;       ///< of the whole model
  std::size_t tokens = 0;           ///< of the global batch
};

/// @brief Records a step of one rank: all of its micro-batches and blocks, as the program trains.
///
/// The setup is checked as for training; its ranks are as many as the machine has, and need not exist.
/// Nothing is computed: what a step decides by numbers on the host (a loss, a norm, a choice of
/// experts) it decides as if these were zeros or even.
/// @param checks_order  whether two streams' accesses of the same bytes without an order between them
///                      throw gpu::OrderError, as on the emulated device.
/// @throws ConfigError where the plan does not fit the model.
[[nodiscard]] RecordedRank record_step(const Setup& setup, int rank, bool checks_order = false);

/// @brief Where a rank stands along the axes whose ranks do different work: "pp 2"; empty where none
/// do.
[[nodiscard]] std::string place_of(const Setup& setup, int rank);

/// @brief The ranks that stand for all: one of each place along the axes whose ranks do different
/// work, at the beginning of the others.
[[nodiscard]] std::vector<int> ranks_that_differ(const Setup& setup);

/// @brief Records those ranks, on as many threads as there are cores.
/// @throws what record_step throws.
[[nodiscard]] std::vector<RecordedRank> record_ranks(const Setup& setup,
                                                     const std::vector<int>& ranks);

}  // namespace ultra::train
