#pragma once
/// @file
/// ListBuilder: a rank's list, written as "the next forward pass of this chunk".

#include <cstddef>
#include <queue>
#include <utility>
#include <vector>

#include "common/train/step_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief Appends passes, of each kind and chunk micro-batches in their order.
///
/// A schedule that fills the pipeline may be written for more micro-batches than there are: passes
/// of those that are missing are left out.
class ListBuilder {
 public:
  /// @param micro_batches  that there are.
  ListBuilder(std::size_t chunks, std::size_t micro_batches);

  /// @brief F: the next forward pass of a chunk.
  void forward(std::size_t chunk = 0);
  /// @brief BW: the next backward pass, whole.
  void backward(std::size_t chunk = 0);
  /// @brief B: the next backward pass for the input; its W waits.
  void backward_input(std::size_t chunk = 0);
  /// @brief W: of those that wait, the one that has waited longest, of whatever chunk.
  void backward_weight();
  /// @brief F and BW of these chunks, overlapped.
  void overlapped(std::size_t forward_chunk, std::size_t backward_chunk);

  /// @brief Passes so far, with those that were left out.
  [[nodiscard]] std::size_t forwards(std::size_t chunk = 0) const { return forwards_[chunk]; }
  /// @brief The same, of backward passes.
  [[nodiscard]] std::size_t backwards(std::size_t chunk = 0) const { return backwards_[chunk]; }
  /// @brief W that wait.
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

  /// @brief The passes.
  [[nodiscard]] const train::StepSchedule& list() const { return list_; }
  /// @brief As PipelineSchedule::overlapped has it of a rank.
  [[nodiscard]] const std::vector<std::size_t>& pairs() const { return pairs_; }

 private:
  bool append(train::ActionKind kind, std::size_t micro_batch, std::size_t chunk);

  std::size_t micro_batches_;
  std::vector<std::size_t> forwards_;   // by chunk
  std::vector<std::size_t> backwards_;  // by chunk
  std::queue<train::Action> waiting_;
  train::StepSchedule list_;
  std::vector<std::size_t> pairs_;
};

/// @brief A rank's passes, and which of them overlap.
struct RankList {
  train::StepSchedule list;             ///< without messages and updates
  std::vector<std::size_t> pairs = {};  ///< as PipelineSchedule::overlapped has it of a rank

  /// @brief Nothing overlaps.
  RankList(train::StepSchedule passes) : list(std::move(passes)) {}
  /// @brief What was appended.
  RankList(const ListBuilder& built) : list(built.list()), pairs(built.pairs()) {}
};

}  // namespace ultra::pipeline_parallel
