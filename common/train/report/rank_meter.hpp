#pragma once
/// @file
/// RankMeter: measures what one rank of a run uses.

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/tensor/device.hpp"
#include "common/train/rank_counters.hpp"
#include "common/train/report/rank_summary.hpp"

namespace ultra::train {

/// @brief Takes the time of a rank's training steps, and reads its memory and its traffic.
///
/// Time in which the rank's thread waited for communication is not compute: CommStats has it.
class RankMeter {
 public:
  /// @brief Starts as run_began() does.
  RankMeter(Communicator world, Device device);

  /// @brief Counts traffic from now on: what went before was set-up.
  void run_began();
  /// @brief A training step begins.
  void step_began();
  /// @brief Its forward and backward passes have ended, its optimizer step begins.
  void gradients_done();
  /// @brief Its optimizer step has ended. Without gradients_done() all of the step's compute counts
  /// as the optimizer's.
  void step_ended();
  /// @brief What follows a step is not training: neither its time nor its traffic counts.
  void pause();
  /// @brief The training goes on.
  void resume();
  /// @brief What the rank's storage was used for, from the run's beginning until now. Called before
  /// step_ended(), so that waiting for storage is not compute.
  void storage_used(const OffloadUse& use) { offload_ = use; }
  /// @brief What the rank's layers have counted since the run's beginning.
  void counted(const RankCounters& counters) { counters_ = counters; }
  /// @brief A figure of the step under way, for its line in the metrics: the same on every rank.
  void note(const std::string& name, std::vector<double> values) {
    figures_[name] = std::move(values);
  }
  /// @brief What was noted since this was last called.
  [[nodiscard]] std::map<std::string, std::vector<double>> take_figures() {
    return std::exchange(figures_, {});
  }
  /// @brief What was still under way after the last step has ended, too: the time since then
  /// belongs to the training, though it is not compute.
  void run_ended();

  /// @brief What the rank has used up to now.
  [[nodiscard]] RankSummary summary() const;

 private:
  /// Ends a lap and begins the next; returns what of it was compute.
  [[nodiscard]] double lap();
  /// Seconds up to now that the rank's thread waited for communication or for storage.
  [[nodiscard]] double waited() const;

  Communicator world_;
  Device device_;
  CommStats before_;
  CommStats before_pause_;
  std::chrono::steady_clock::time_point lap_begin_;
  double waited_before_lap_ = 0;
  double no_compute_ = 0;  // of all laps
  RankSeconds seconds_;
  OffloadUse offload_;
  RankCounters counters_;
  std::map<std::string, std::vector<double>> figures_;
};

/// @brief The summaries of all ranks, in their order, on every rank. Collective.
[[nodiscard]] std::vector<RankSummary> exchange_summaries(const Communicator& world,
                                                          const RankSummary& own);

}  // namespace ultra::train
