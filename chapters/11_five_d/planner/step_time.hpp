#pragma once
/// @file
/// The time of a step, put together from what stages, messages, exchanges and the optimizer take.
///
/// Exercise 11.2 (`./workbook check 11.2`). Body: solutions/11_five_d/step_time.cpp.

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
/// - messages: what the first and the last micro-batch wait for, and what the others do. While the
///   pipeline fills, one activation crosses the borders between all stages before the last stage
///   begins; while it drains, one gradient crosses them back. Nothing hides these. Unless
///   hides_messages, a stage also waits for each of the other micro-batches: in each chunk for one
///   message forward and for one backward. One stage has no messages.
/// - data: exposed entirely; or, where it is hidden, what is left of the gradients' sum behind
///   backward passes of the slowest stage, of the parameters behind forward passes, and of what each
///   micro-batch exchanges behind that micro-batch's passes. Without chunks, the first two hide behind
///   one micro-batch's passes. With v > 1 chunks, pp micro-batches pass a chunk before the next chunk
///   begins, and what is left is the largest of three: nothing; the last chunk's part of the exchange,
///   1/v, less one micro-batch's pass of that chunk; and the whole exchange less the passes of pp
///   micro-batches through the other v - 1 chunks.
/// - stragglers: slowdown - 1 of all the rest.
/// predict() keeps all of it but bubble and messages of more than one stage, for which it asks
/// chapter 07's simulator (time/pipeline_time.hpp); the search sorts by this form before.
/// Source: Narayanan et al. 2021, arXiv 2104.04473, section 3; Rajbhandari et al. 2020, arXiv
/// 1910.02054, section 7.
[[nodiscard]] StepSeconds step_seconds(const StepParts& parts);

}  // namespace ultra::planner
