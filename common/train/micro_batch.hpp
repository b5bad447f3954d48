#pragma once
/// @file
/// Micro-batches: what of a global batch is this rank's, and how it passes.

#include <cstddef>
#include <functional>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/tensor/shape.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::train {

/// @brief What a rank has to do of each global batch.
struct LocalBatch {
  Range sequences;       ///< of the global batch: this rank's
  std::size_t largest;   ///< sequences of the largest share of a rank
  std::size_t seq_len;   ///< tokens of a sequence
  double global_tokens;  ///< of the whole global batch, over all ranks, with a loss or without
};

/// @brief Sequences that pass together.
struct MicroBatch {
  Range sequences;      ///< of this rank's share, counted from its first
  double normalizer;    ///< what the sum of its token losses is divided by, where all have one
  double weight = 1.0;  ///< of its tokens: 0 for sequences that pass once more, for nothing
};

/// Which sequences of a global batch are this rank's: shares of ranks differ by at most one.
/// @throws ConfigError, on every rank alike, when they cannot be dealt out.
using SplitRule = std::function<Range(std::size_t global_batch, const Communicator& replicas)>;

/// Cuts a share into micro-batches of a size: as many on every rank, for layers may communicate.
/// @throws ConfigError when the size does not fit.
using CutRule =
    std::function<std::vector<MicroBatch>(const LocalBatch& share, std::size_t micro_batch)>;

/// The order in which this many micro-batches pass.
using ScheduleRule = std::function<StepSchedule(std::size_t micro_batches)>;

}  // namespace ultra::train
