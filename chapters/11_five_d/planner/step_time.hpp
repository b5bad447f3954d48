#pragma once
/// @file
/// The time of a step, put together from what stages, messages, exchanges and the optimizer take.
///
/// Exercise 11.2 (`./workbook check 11.2`).

#include <cstddef>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"

namespace ultra::planner {

/// @brief What a stage takes for one micro-batch, all its chunks together.
struct StageSeconds {
  double forward = 0;           ///< F
  double backward = 0;          ///< what is computed again, B and W
  double weight_gradients = 0;  ///< of backward, W

  /// @brief F, B and W.
  [[nodiscard]] double together() const { return forward + backward; }
};

/// @brief What replicas exchange in a step, when nothing hides it.
struct DataSeconds {
  double gradients = 0;   ///< once per step: sums
  double parameters = 0;  ///< once per step: new weights
  double each_micro_batch =
      0;  ///< ZeRO-3's gathers and sums, and ZeRO-2's sums, of one micro-batch
};

/// @brief All that a step is made of.
struct StepParts {
  std::vector<StageSeconds> stages = {};            ///< in their order
  pipeline_parallel::ScheduleChoice schedule = {};  ///< of the pipeline
  std::size_t micro_batches = 1;                    ///< m
  double message = 0;                               ///< of one activation, or its gradient, one hop
  bool hides_messages = false;                      ///< messages run beside passes
  DataSeconds data = {};                            ///< between replicas
  bool hides_data = false;                          ///< exchanges run beside passes
  double optimizer = 0;                             ///< the update
  double slowdown = 1;                              ///< of a step that waits for its slowest rank
};

/// @brief Where a step's time goes; the parts do not overlap.
struct StepSeconds {
  double passes = 0;      ///< of the stage that takes longest, for all micro-batches
  double bubble = 0;      ///< waiting for the pipeline to fill and to drain
  double messages = 0;    ///< between stages, as far as a stage waits for them
  double data = 0;        ///< between replicas, as far as nothing hides it
  double optimizer = 0;   ///< the update
  double stragglers = 0;  ///< waiting for the slowest rank

  /// @brief All of it.
  [[nodiscard]] double total() const {
    return passes + bubble + messages + data + optimizer + stragglers;
  }
};

/// @brief The time of a step.
///
/// - passes: every stage waits for the slowest.
/// - bubble: chapter 07's closed form (pipeline_parallel::bubble_seconds) of chunks as long as the
///   average stage's.
/// - messages: a micro-batch crosses each stage's border once forward and once backward, per chunk;
///   a pipeline that hides messages still waits for those that fill and drain it.
/// - data: exposed entirely; or, where it is hidden, what is left of the gradients' sum behind
///   backward passes of the slowest stage, of the parameters behind forward passes, and of what each
///   micro-batch exchanges behind that micro-batch's passes. The passes that hide the first two: one
///   micro-batch's; of v > 1 chunks, which pp micro-batches pass one after the other, those of all
///   chunks but one of pp micro-batches, and of the last chunk's own 1/v of the exchange those of
///   one chunk.
/// - stragglers: slowdown - 1 of all the rest.
/// Source: Narayanan et al. 2021, arXiv 2104.04473, section 3; Rajbhandari et al. 2020, arXiv
/// 1910.02054, section 7.
[[nodiscard]] StepSeconds step_seconds(const StepParts& parts);

}  // namespace ultra::planner
