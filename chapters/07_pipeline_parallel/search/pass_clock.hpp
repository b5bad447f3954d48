#pragma once
/// @file
/// PassClock: when passes begin and end, one decision after the other, with a way back.
///
/// What a search does thousands of times; simulate() is the judge at its end. Receives are taken to
/// be posted in time. Backward passes are split: B, and W when there is time.

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"

namespace ultra::pipeline_parallel {

/// @brief All ranks of a pipeline, some passes into a step.
class PassClock {
 public:
  /// A time that is not known yet.
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  /// @brief A step's beginning.
  /// @param costs  outlive this.
  PassClock(const Placement& placement, std::size_t micro_batches, const CostModel& costs);

  /// @brief What run() has changed.
  struct Change {
    std::size_t stage = 0;      ///< whose
    double free = 0;            ///< of it, before
    double bytes = 0;           ///< of it, before
    double* arrival = nullptr;  ///< that has become known
    double* link = nullptr;     ///< that has been busy
    double link_free = 0;       ///< of it, before
  };

  /// @brief When a pass can begin; kUnknown: what it needs has not been decided on.
  [[nodiscard]] double earliest(std::size_t stage, const train::Action& action) const;
  /// @brief Runs F, B or W as early as it can.
  /// @return what undo() takes, in reverse order.
  Change run(std::size_t stage, const train::Action& action);
  /// @brief Takes a pass back.
  void undo(const Change& change);

  /// @brief When a rank's last pass ends.
  [[nodiscard]] double free(std::size_t stage) const { return free_[stage]; }
  /// @brief When the input of a part's F, or the gradient for its B, arrives; kUnknown: not
  /// decided.
  [[nodiscard]] double input_arrives(std::size_t part, std::size_t micro_batch) const {
    return inputs_[part * micro_batches_ + micro_batch];
  }
  /// @brief The same of the gradient of its output.
  [[nodiscard]] double gradient_arrives(std::size_t part, std::size_t micro_batch) const {
    return gradients_[part * micro_batches_ + micro_batch];
  }
  /// @brief Bytes that a rank keeps.
  [[nodiscard]] double bytes(std::size_t stage) const { return bytes_[stage]; }
  /// @brief When the last rank's last pass ends.
  [[nodiscard]] double seconds() const;

 private:
  void hand_over(std::size_t from_part, std::size_t to_part, double* arrival, double end,
                 Change& change);

  const Placement placement_;
  std::size_t micro_batches_;
  const CostModel& costs_;
  std::vector<double> free_;       // by stage
  std::vector<double> bytes_;      // by stage
  std::vector<double> inputs_;     // by part and micro-batch
  std::vector<double> gradients_;  // by part and micro-batch
  std::vector<double> links_;      // by from and to: when it is free
};

/// @brief Seconds of a schedule of F, B and W; nothing when it never ends or keeps more than that.
[[nodiscard]] std::optional<double> seconds_of(const PipelineSchedule& schedule,
                                               const CostModel& costs, double most_bytes);

}  // namespace ultra::pipeline_parallel
