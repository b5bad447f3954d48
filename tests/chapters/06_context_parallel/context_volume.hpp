#pragma once
/// @file
/// What context parallelism sends in a step, by closed form.
///
/// Legend: N ranks, of which U exchange heads and R = N / U are a ring (or gather); s tokens of a
/// sequence per rank, with padding; b sequences, a query heads and g key/value heads per rank of tp, d
/// elements per head. Per block and rank, in elements, with n = 2 b s g d for keys and values:
///
/// | operation            | forward                    | backward        |
/// |----------------------|----------------------------|-----------------|
/// | send (ring), S steps | (S-1) n                    | (2S-1) n, S > 1 |
/// | all-gather           | (N-1) n                    | (N-1) n         |
/// | reduce-scatter       |                            | (N-1) n         |
/// | all-to-all (ulysses) | 2 (U-1)/U b s (a + g) d    | the same        |
///
/// A ring has S = R steps. A window of w tokens reaches h = ceil((w - 1) / c) chunks of c tokens back:
/// then S is at most 1 + h with contiguous chunks, and 1 + 2 h with zig-zag.

#include <algorithm>
#include <cstddef>
#include <span>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "chapters/06_context_parallel/attention_methods/context_method.hpp"
#include "chapters/06_context_parallel/context_layout.hpp"
#include "common/base/numeric.hpp"
#include "common/nn/model_config.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::context_parallel {

/// @brief Attention of one block of one micro-batch on one rank: what the closed forms need.
struct AttentionShape {
  std::size_t batch = 1;     ///< b, sequences
  std::size_t tokens = 0;    ///< s, of each sequence on this rank, with padding
  std::size_t heads = 1;     ///< a, query heads on this rank
  std::size_t kv_heads = 1;  ///< g, key/value heads on this rank
  std::size_t head_dim = 1;  ///< d, elements
  std::size_t steps = 1;     ///< S, of the ring
};

/// @brief S: steps of a ring in which some rank sees something.
inline std::size_t steps_of(const ContextLayout& layout, const MethodChoice& choice,
                            std::size_t window) {
  const auto ring = static_cast<std::size_t>(choice.ring());
  if (window == 0 || ring == 1) return ring;
  // Neighbours that exchange heads have their tokens together: a chunk is all of theirs.
  const std::size_t chunk = layout.chunk_len() * static_cast<std::size_t>(choice.ulysses);
  return std::min(ring, 1 + layout.chunks_per_rank() * ceil_div(window - 1, chunk));
}

/// @brief Elements that a rank sends for one block, by the kind of operation.
struct SentByKind {
  std::size_t send = 0;            ///< rings
  std::size_t all_gather = 0;      ///< keys and values
  std::size_t reduce_scatter = 0;  ///< their gradients
  std::size_t all_to_all = 0;      ///< tokens for heads

  /// @brief All together.
  [[nodiscard]] std::size_t total() const {
    return send + all_gather + reduce_scatter + all_to_all;
  }
  /// @brief Adds those of other passes.
  SentByKind& operator+=(const SentByKind& other);
  /// @brief Of so many passes.
  [[nodiscard]] SentByKind times(std::size_t count) const;
  bool operator==(const SentByKind&) const = default;
};

/// @brief A step of one rank, as far as context parallelism goes.
struct ContextStep {
  nn::ModelConfig model;                            ///< whole
  ContextLayout layout;                             ///< of its sequences
  MethodChoice choice;                              ///< what travels
  std::size_t tp = 1;                               ///< ranks that share the heads
  DType dtype = DType::kF32;                        ///< of activations
  std::span<const std::size_t> micro_batches = {};  ///< sequences of each
  std::size_t block_forwards = 1;                   ///< forward passes of each block: 2 where it is
                                                    ///< computed again
};

/// n: keys and values of a rank's tokens.
inline std::size_t pair_elements(const AttentionShape& shape) {
  return 2 * shape.batch * shape.tokens * shape.kv_heads * shape.head_dim;
}

/// Query, key, value and output, or their gradients: all but the rank's own part.
inline std::size_t exchanged_elements(const AttentionShape& shape, const MethodChoice& choice) {
  const auto ranks = static_cast<std::size_t>(choice.ulysses);
  const std::size_t own =
      2 * shape.batch * shape.tokens * (shape.heads + shape.kv_heads) * shape.head_dim;
  return own / ranks * (ranks - 1);
}

inline SentByKind& SentByKind::operator+=(const SentByKind& other) {
  send += other.send;
  all_gather += other.all_gather;
  reduce_scatter += other.reduce_scatter;
  all_to_all += other.all_to_all;
  return *this;
}

inline SentByKind SentByKind::times(std::size_t count) const {
  return {.send = send * count,
          .all_gather = all_gather * count,
          .reduce_scatter = reduce_scatter * count,
          .all_to_all = all_to_all * count};
}

/// @brief The column "forward" of the table above.
inline SentByKind sent_forward(const AttentionShape& shape, const MethodChoice& choice) {
  const auto ring = static_cast<std::size_t>(choice.ring());
  const std::size_t pair = pair_elements(shape);
  if (choice.method == ContextMethod::kAllGather) return {.all_gather = (ring - 1) * pair};
  return {.send = (shape.steps - 1) * pair, .all_to_all = exchanged_elements(shape, choice)};
}

/// @brief The column "backward".
inline SentByKind sent_backward(const AttentionShape& shape, const MethodChoice& choice) {
  const auto ring = static_cast<std::size_t>(choice.ring());
  const std::size_t pair = pair_elements(shape);
  if (choice.method == ContextMethod::kAllGather) {
    return {.all_gather = (ring - 1) * pair, .reduce_scatter = (ring - 1) * pair};
  }
  return {.send = shape.steps == 1 ? 0 : (2 * shape.steps - 1) * pair,
          .all_to_all = exchanged_elements(shape, choice)};
}

/// @brief Bytes that a rank sends for attention in a step: exact.
inline SentByKind context_traffic(const ContextStep& step) {
  const tensor_parallel::TensorParallelLayout tensor{.tp = checked_cast<int>(step.tp)};
  SentByKind sum;
  for (const std::size_t batch : step.micro_batches) {
    const AttentionShape shape{
        .batch = batch,
        .tokens = step.layout.local_seq_len(),
        .heads = tensor.local_heads(step.model.num_heads),
        .kv_heads = tensor.local_kv_heads(step.model.num_kv_heads),
        .head_dim = step.model.head_dim(),
        .steps = steps_of(step.layout, step.choice, step.model.sliding_window)};
    sum += sent_forward(shape, step.choice).times(step.block_forwards);
    sum += sent_backward(shape, step.choice);
  }
  return sum.times(step.model.num_layers * size_of(step.dtype));
}

}  // namespace ultra::context_parallel
