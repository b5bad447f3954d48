#include "chapters/06_context_parallel/estimate/context_volume.hpp"

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/base/numeric.hpp"

namespace ultra::context_parallel {
namespace {

/// n: keys and values of a rank's tokens.
std::size_t pair_elements(const AttentionShape& shape) {
  return 2 * shape.batch * shape.tokens * shape.kv_heads * shape.head_dim;
}

/// Query, key, value and output, or their gradients: all but the own part.
std::size_t exchanged_elements(const AttentionShape& shape, const MethodChoice& choice) {
  const auto ranks = static_cast<std::size_t>(choice.ulysses);
  const std::size_t own =
      2 * shape.batch * shape.tokens * (shape.heads + shape.kv_heads) * shape.head_dim;
  return own / ranks * (ranks - 1);
}

}  // namespace

SentByKind& SentByKind::operator+=(const SentByKind& other) {
  send += other.send;
  all_gather += other.all_gather;
  reduce_scatter += other.reduce_scatter;
  all_to_all += other.all_to_all;
  return *this;
}

SentByKind SentByKind::times(std::size_t count) const {
  return {.send = send * count,
          .all_gather = all_gather * count,
          .reduce_scatter = reduce_scatter * count,
          .all_to_all = all_to_all * count};
}

SentByKind sent_forward(const AttentionShape& shape, const MethodChoice& choice) {
  const auto ring = static_cast<std::size_t>(choice.ring());
  const std::size_t pair = pair_elements(shape);
  if (choice.method == ContextMethod::kAllGather) return {.all_gather = (ring - 1) * pair};
  return {.send = (ring - 1) * pair, .all_to_all = exchanged_elements(shape, choice)};
}

SentByKind sent_backward(const AttentionShape& shape, const MethodChoice& choice) {
  const auto ring = static_cast<std::size_t>(choice.ring());
  const std::size_t pair = pair_elements(shape);
  if (choice.method == ContextMethod::kAllGather) {
    return {.all_gather = (ring - 1) * pair, .reduce_scatter = (ring - 1) * pair};
  }
  return {.send = ring == 1 ? 0 : (2 * ring - 1) * pair,
          .all_to_all = exchanged_elements(shape, choice)};
}

SentByKind context_traffic(const ContextStep& step) {
  const tensor_parallel::TensorParallelLayout tensor{.tp = checked_cast<int>(step.tp)};
  SentByKind sum;
  for (const std::size_t batch : step.micro_batches) {
    const AttentionShape shape{.batch = batch,
                               .tokens = step.layout.local_seq_len(),
                               .heads = tensor.local_heads(step.model.num_heads),
                               .kv_heads = tensor.local_kv_heads(step.model.num_kv_heads),
                               .head_dim = step.model.head_dim()};
    sum += sent_forward(shape, step.choice).times(step.block_forwards);
    sum += sent_backward(shape, step.choice);
  }
  return sum.times(step.model.num_layers * size_of(step.dtype));
}

}  // namespace ultra::context_parallel
