#pragma once
/// @file
/// The prediction: memory, time and speed of a layout, and where the time goes.

#include <cstddef>
#include <cstdint>

#include "chapters/11_five_d/planner/layout_memory.hpp"
#include "chapters/11_five_d/planner/step_time.hpp"
#include "chapters/11_five_d/planner/time/block_time.hpp"

namespace ultra::planner {

/// @brief What a layout needs and takes.
struct Prediction {
  Layout layout;                  ///< of what
  std::size_t micro_batches = 1;  ///< m
  StageMemory memory = {};        ///< of the stage that needs most
  StepSeconds step = {};          ///< where the time goes, by parts of the step
  PassSeconds passes = {};        ///< step.passes by what the slowest stage does
  double recompute = 0;           ///< of step.passes: computing again, all of it
  double tokens_per_second = 0;   ///< of all GPUs together
  double flops_per_gpu = 0;       ///< model FLOP per second and GPU
  double mfu = 0;                 ///< of the bf16 peak
};

/// @brief Where a pipeline's bubble and messages come from.
enum class PipelineTime : std::uint8_t {
  kSimulated,   ///< pipeline_seconds(): stages as long as they are, messages on their link
  kClosedForm,  ///< step_seconds(): quick, and the same where stages are alike and links are fast
};

/// @brief All of it for one layout.
/// @pre why_impossible() has nothing to say.
/// Cost: O(pp), and once for all layouts with such stages what pipeline_seconds() costs.
[[nodiscard]] Prediction predict(const Question& question, const Layout& layout,
                                 PipelineTime time = PipelineTime::kSimulated);

/// @brief What replicas exchange.
///
/// Without ZeRO an all-reduce of the gradients; with it a reduce-scatter, and an all-gather of the
/// weights, which ZeRO-3 makes for every micro-batch, forward and backward, block by block: each pays
/// the latency of a ring through all ranks. Where a block is computed again its weights are there.
/// ZeRO-2 and 3 sum the gradients of every micro-batch.
/// @param held  of the largest stage.
[[nodiscard]] DataSeconds data_exchange(const Question& question, const Layout& layout,
                                        const StageParameters& held);

/// @brief The update of a rank's parameters: Adam and the norm, by the bytes that they read and
/// write; offloaded, by what travels to the host and back, and the host's own work.
[[nodiscard]] double optimizer_seconds(const Question& question, const Layout& layout,
                                       const StageParameters& held);

}  // namespace ultra::planner
