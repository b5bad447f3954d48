#pragma once
/// @file
/// The memory of a layout: what each rank of a stage needs at the worst moment of a step.
///
/// Exercise 11.1 (`./workbook check 11.1`). Body: solutions/11_five_d/layout_memory.cpp.

#include "chapters/11_five_d/planner/memory/stage_parameters.hpp"
#include "chapters/11_five_d/planner/time/block_time.hpp"
#include "common/replay/cluster/cluster.hpp"

namespace ultra::planner {

/// @brief Bytes of a rank, by what they hold.
struct StageMemory {
  double parameters = 0;   ///< the weights that the passes compute with
  double gradients = 0;    ///< kept from micro-batch to micro-batch
  double optimizer = 0;    ///< moments and master weights
  double activations = 0;  ///< of all micro-batches between their passes, and of the tables
  double transient = 0;    ///< a block that is computed again, weights that are gathered
  double overhead = 0;     ///< of the allocator, communication buffers and the CUDA context

  /// @brief What tensors need.
  [[nodiscard]] double tensors() const {
    return parameters + gradients + optimizer + activations + transient;
  }
  /// @brief What must fit into the GPU.
  [[nodiscard]] double total() const { return tensors() + overhead; }
  bool operator==(const StageMemory&) const = default;
};

/// @brief What no tensor accounts for: CUDA context and kernels, buffers of each communicator, and
/// what the allocator holds and cannot use, a part of activations and transient bytes.
/// Nothing for a program that does not run on GPUs.
/// @param groups  kinds of groups that the layout communicates in.
[[nodiscard]] double overhead_bytes(const Software& software, const StageMemory& memory,
                                    int groups);

/// @brief What the allocator holds and cannot use: a part of what comes and goes.
[[nodiscard]] double fragmented_bytes(const StageMemory& memory);
/// @brief The same, but nothing where its one growing segment (Software::expandable_segments) serves no
/// pipeline: memory_of_stage() counts that in its place.
[[nodiscard]] double fragmented_bytes(const Software& software, const Layout& layout,
                                      const StageMemory& memory);

/// @brief Kinds of groups: axes of more than one rank.
[[nodiscard]] int communicating_axes(const Layout& layout);

/// @brief The bytes of a rank of a stage.
///
/// - States of stage_parameters() by chapter 04's formula (zero::bytes_per_rank, in
///   chapters/04_zero/zero_memory.hpp), over the ranks that hold the same parameters, which make up
///   Layout::copies: of experts they are others than of the rest. Gradients take Software::kept_gradient_bytes() of each parameter
///   where that formula counts memory::bytes_per_parameter().gradients. Offloaded optimizer states
///   take no byte of the GPU.
/// - Activations: what a block keeps (kept_bytes) for as many micro-batches as the schedule has under
///   way (pipeline_parallel::peak_activations_of, in
///   chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp, which counts chunks of a stage),
///   and the tables' (table_bytes): the input table's for each of them, on the first stage; the output
///   table's for one, on output_stage(). Of a stage's blocks expert_blocks() have experts.
/// - Transient: with recomputation one whole block, less what it keeps, of the kind for which that is
///   more; with ZeRO-3 also the weights of two blocks, gathered, where a block counts as its part of
///   all that the stage holds, tables too: stage_parameters().total() over the stage's blocks.
/// - Overhead: overhead_bytes() of all that, with communicating_axes().
/// @param blocks  blocks_of_stages().
[[nodiscard]] StageMemory stage_memory(const Question& question, const Layout& layout,
                                       const std::vector<std::size_t>& blocks, std::size_t stage);

/// @brief The same as the program and the training have it: with the states of the workload's rule,
/// without gradients and states of frozen weights, with the matrices that a rule wants whole at the end of
/// a step, and as the fields of Software say. Transient bytes are those of the worst moment: the loss, the
/// output table behind it, or a block.
/// @param blocks  blocks_of_stages().
[[nodiscard]] StageMemory memory_of_stage(const Question& question, const Layout& layout,
                                          const std::vector<std::size_t>& blocks,
                                          std::size_t stage);

/// @brief The stage that needs most. Of offloaded activations, those of two blocks are in its GPU.
[[nodiscard]] StageMemory largest_stage(const Question& question, const Layout& layout);

}  // namespace ultra::planner
