#pragma once
/// @file
/// RankSummary: what one rank of a run used, as plain values that travel between ranks and into the
/// metrics file.

#include <array>
#include <cstddef>
#include <string>

#include "common/comm/traffic.hpp"
#include "common/tensor/memory_tracker.hpp"
#include "common/train/rank_counters.hpp"

namespace ultra {
class Json;
}

namespace ultra::train {

/// @brief The highest memory use of a rank: what its MemoryTracker had found.
class MemoryPeaks {
 public:
  /// One peak per category.
  using Categories = std::array<MemoryPeak, kNumMemoryCategories>;

  /// @brief Of a rank that used nothing.
  MemoryPeaks() = default;
  /// @brief Of a tracker as it is now.
  MemoryPeaks(const MemoryTracker& tracker);  // NOLINT(google-explicit-constructor): its values
  /// @brief From values that were written down.
  MemoryPeaks(Categories categories, MemoryPeak total, const MemoryUsage& usage_at_peak);

  /// @brief Highest bytes of one category, and when.
  [[nodiscard]] const MemoryPeak& peak(MemoryCategory category) const {
    return categories_[static_cast<std::size_t>(category)];
  }
  /// @brief Highest total, and when.
  [[nodiscard]] const MemoryPeak& peak_total() const { return total_; }
  /// @brief Bytes of each category at the moment of the highest total.
  [[nodiscard]] const MemoryUsage& usage_at_peak() const { return usage_at_peak_; }

 private:
  Categories categories_;
  MemoryPeak total_;
  MemoryUsage usage_at_peak_;
};

/// @brief Where a rank's time went, in seconds over the whole run; see also CommStats.
struct RankSeconds {
  double compute = 0;           ///< forward, backward and optimizer, without waiting
  double idle = 0;              ///< waiting for other ranks' work
  double forward_backward = 0;  ///< the part of compute in forward and backward passes
  double optimizer = 0;         ///< the part of compute in clipping and optimizer steps
  double total = 0;             ///< wall time of training, waiting included
};

/// @brief What moved between a rank's device and the storage beside it.
struct StorageTraffic {
  std::size_t read_bytes = 0;     ///< brought to the device
  std::size_t written_bytes = 0;  ///< taken from it
  double read_seconds = 0;        ///< durations of all reads, added up
  double write_seconds = 0;       ///< durations of all writes, added up
  double exposed_seconds = 0;     ///< in which the rank's thread waited for either
};

/// @brief What a rank keeps outside its device's memory: in the host's, or in a file.
struct OffloadUse {
  std::size_t stored_bytes = 0;  ///< none: nothing is offloaded
  StorageTraffic optimizer;      ///< of the optimizer steps
  StorageTraffic weights;        ///< of the weights for the passes

  /// @brief Seconds that the rank's thread waited for its storage.
  [[nodiscard]] double exposed_seconds() const {
    return optimizer.exposed_seconds + weights.exposed_seconds;
  }
};

/// @brief What one rank used.
struct RankSummary {
  int rank = 0;                        ///< its number
  std::string device = {};             ///< its GPU's name; empty on the CPU
  MemoryPeaks memory;                  ///< peaks per category and of the total
  std::size_t reserved_bytes = 0;      ///< what its pool held from the system at the end
  std::size_t system_allocations = 0;  ///< how often the pool asked the system
  RankSeconds seconds;                 ///< where its time went
  CommStats communication;             ///< of the training steps: operations, bytes and seconds
  OffloadUse offload = {};             ///< what it keeps beside its device
  RankCounters counters = {};          ///< what its layers counted, over the whole run
};

/// @brief The summary as it stands in the metrics file's "ranks".
[[nodiscard]] Json to_json(const RankSummary& summary);

/// @brief The summary that to_json wrote down, of the kinds of operations that send data.
[[nodiscard]] RankSummary rank_summary_from(const Json& json);

}  // namespace ultra::train
