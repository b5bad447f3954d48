#pragma once
/// @file
/// What a recorded step takes on a machine, as a table and as JSON.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json.hpp"
#include "common/replay/cluster/cluster.hpp"
#include "common/replay/replay.hpp"
#include "common/tensor/memory_tracker.hpp"
#include "common/train/elsewhere/record_step.hpp"

namespace ultra::train {

/// @brief What one recorded rank keeps.
struct OnMemory {
  int rank = 0;              ///< of the world
  std::string place;         ///< among ranks that do different work; or empty
  MemoryUsage at_peak;       ///< where the total is highest, by category
  MemoryUsage highest;       ///< each category where it is highest
  std::string phase;         ///< what it does then
  std::size_t reserved = 0;  ///< that the caching allocator holds
};

/// What reports call the messages between ranks, beside the names of groups.
inline constexpr std::string_view kMessages = "messages";

/// @brief What the ranks of a group exchange in a step.
struct OnExchanges {
  std::string group;            ///< "dp", or "messages" between ranks
  std::size_t times = 0;        ///< exchanges
  double bytes = 0;             ///< sent by the rank
  double seconds = 0;           ///< of all, each alone
  double waited = 0;            ///< of these: some stream had nothing else to do
  std::string waited_for = {};  ///< labels that cost most of it, with seconds
};

/// @brief What a step takes.
struct OnReport {
  std::string heading;                ///< model, types, layout and machine
  int ranks = 1;                      ///< GPUs
  std::size_t parameters = 0;         ///< of the whole model
  double memory_bytes = 0;            ///< of a GPU
  std::vector<OnMemory> memory = {};  ///< of the recorded ranks
  Formulas formulas = {};             ///< that hold for rank 0's highest bytes
  int slowest = 0;                    ///< the rank whose seconds these are
  double seconds = 0;                 ///< of a step
  std::size_t tokens = 0;             ///< in it
  double flop = 0;         ///< of products and attention, of all ranks, recomputed ones included
  double peak_flops = 0;   ///< of a GPU
  double products = 0;     ///< seconds
  double attention = 0;    ///< seconds
  double elementwise = 0;  ///< seconds, with copies, before the optimizer
  double update = 0;       ///< seconds of the optimizer's phase
  double streams = 0;      ///< seconds waited for work on other streams
  double stage = 0;        ///< seconds waited for messages
  double host = 0;         ///< seconds that streams waited for the host
  std::vector<replay::ReplayedRank> replayed = {};  ///< all recorded ranks
  std::vector<OnExchanges> exchanges = {};          ///< by group

  /// @brief The part of the GPUs' peak that the step reaches.
  [[nodiscard]] double part_of_peak() const { return flop / seconds / ranks / peak_flops; }
  /// @brief Seconds waited for the exchanges of groups.
  [[nodiscard]] double exchanges_waited() const;
};

/// @brief Prices recorded ranks on a machine.
/// @param spans  whether the replayed ranks keep theirs.
[[nodiscard]] OnReport price(const Setup& setup, const replay::Cluster& cluster,
                             const std::vector<RecordedRank>& ranks, replay::Spans spans);

/// @brief The report as tables.
[[nodiscard]] std::string to_text(const OnReport& report);
/// @brief The report as JSON: bytes and seconds.
[[nodiscard]] Json to_json(const OnReport& report);

/// @brief The report's spans as a timeline: the text of a file that ui.perfetto.dev opens.
[[nodiscard]] std::string timeline_of(const OnReport& report);

}  // namespace ultra::train
