#pragma once
/// @file
/// Memory per stage of a pipeline, by closed form for each part and by the schedule's list for
/// their sum.
///
/// Legend: t tensor-parallel ranks; h hidden_size, k kv_hidden_size, f ffn_hidden_size, V
/// vocab_size, v = ceil(V / t), e bytes per element, a of a sum, tokens of a micro-batch as a rank
/// has them.
///
/// Between B and W a matrix keeps its input and the gradient of its output, both of all tokens; a
/// norm the gradient of its weight. So waiting bytes are, with gates (without: f for 2 f):
///
/// | of        | inputs                        | gradients                                       |
/// |-----------|-------------------------------|-------------------------------------------------|
/// | block     | e tokens (2 h + (h + f) / t)  | e tokens (2 h + (h + 2 k + 2 f) / t) + 2 a h    |
/// | embedding | 4 tokens                      | e tokens h                                      |
/// | head      | e tokens h                    | e tokens v + a h                                |
///
/// Within B only what was an activation before counts as one: inputs and logits, but not the
/// inputs of h features that sequence parallelism gathers. What B makes is temporary until it ends.

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/06_context_parallel/estimate/context_memory.hpp"
#include "chapters/07_pipeline_parallel/schedule/messages.hpp"
#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "common/nn/model.hpp"

namespace ultra::pipeline_parallel {

/// @brief Bytes of a block's activations of a micro-batch.
struct BlockActivations {
  std::size_t kept = 0;      ///< between its passes
  std::size_t whole = 0;     ///< in its backward pass
  std::size_t unpacked = 0;  ///< beside, while it is computed again
  std::size_t waiting = 0;   ///< after its B, until W: inputs of matrices
  std::size_t deferred = 0;  ///< beside them, once the part's B has ended: what that made for W
};

/// @brief A model in parts, and how the rest is shared.
struct StagedModel {
  memory::TransformerShape shape;      ///< of the whole model
  std::vector<nn::StageSpec> parts;    ///< of it, in order
  memory::NumberFormats precision;     ///< formats of the numbers
  memory::RecomputeConfig recompute;   ///< of blocks
  context_parallel::LocalModel share;  ///< of sequences and matrices
  /// Of blocks other than chapter 06's: what they hold, for so many sequences.
  std::function<BlockActivations(std::size_t sequences)> blocks = {};
};

/// @brief Number of weights that a rank of a part has.
///
/// Blocks as chapter 05 counts them; with the embedding v h (and learned positions), with the head
/// v h and the final norm. Tied tables count on both ends, when these are two parts.
[[nodiscard]] std::size_t part_parameters(const StagedModel& model, const nn::StageSpec& part);

/// @brief Bytes of activations of a micro-batch in a part.
struct PartActivations {
  std::size_t kept = 0;       ///< between forward and backward pass
  std::size_t passing = 0;    ///< at the highest moment of the backward pass: more than kept, when
                              ///< blocks are computed again
  std::size_t splitting = 0;  ///< the same of B, while the blocks behind wait for W already
  std::size_t waiting = 0;    ///< after B, until W: what each matrix, the table and the norms need
  std::size_t border = 0;     ///< hidden states that come from a neighbour, or their gradient
};

/// @brief The closed forms of chapters 01, 05 and 06 for a block, or the model's own.
[[nodiscard]] BlockActivations block_activations(const StagedModel& model, std::size_t sequences);

/// @brief The same for the blocks of a part, with embedding and head where it has them.
/// @param sequences  of the micro-batch.
[[nodiscard]] PartActivations part_activations(const StagedModel& model, const nn::StageSpec& part,
                                               std::size_t sequences);

/// @brief Highest bytes of activations of a stage within a step: what its list of instructions adds
/// up to, with messages that have been posted ahead.
/// @param sequences  of each micro-batch.
[[nodiscard]] std::size_t peak_activation_bytes(const StagedModel& model,
                                                const PipelineSchedule& schedule, std::size_t stage,
                                                std::span<const std::size_t> sequences);

}  // namespace ultra::pipeline_parallel
