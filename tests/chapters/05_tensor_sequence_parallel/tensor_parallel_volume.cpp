#include "tests/chapters/05_tensor_sequence_parallel/tensor_parallel_volume.hpp"

namespace ultra::tensor_parallel {
namespace {

/// Elements that the members of a group send together in an all-reduce.
std::size_t all_reduced(std::size_t ranks, std::size_t elements) {
  return 2 * (ranks - 1) * elements;
}

/// Elements sent to add up the gradients of copies, once per step.
std::size_t gradients_of_copies(const TensorStep& step) {
  const nn::ModelConfig& model = step.model;
  const std::size_t ranks = step.layout.ranks();
  std::size_t sent = 0;
  if (step.layout.splits_sequences()) {
    sent += all_reduced(ranks, (2 * model.num_layers + 1) * model.hidden_size);
  }
  const std::size_t copies = step.layout.kv_copies(model.num_kv_heads);
  const std::size_t head = model.head_dim() * model.hidden_size;
  return sent + ranks / copies * all_reduced(copies, 2 * model.num_layers * head);
}

}  // namespace

// [region activation_exchanges]
ActivationExchanges activation_exchanges(std::size_t num_layers, const TensorParallelLayout& layout,
                                         std::size_t block_forwards) {
  if (layout.tp == 1) return {};
  const std::size_t forward = 2 * num_layers * block_forwards;
  const std::size_t backward = 2 * num_layers;
  const std::size_t all_reduces = 1 + forward + backward + 1;  // embedding, blocks, head
  if (!layout.splits_sequences()) return {.all_reduces = all_reduces};
  const std::size_t again = 2 * num_layers + 1;
  return {.all_gathers = all_reduces + again, .reduce_scatters = all_reduces};
}
// [/region]

TensorTraffic tensor_traffic(const TensorStep& step) {
  const std::size_t ranks = step.layout.ranks();
  const std::size_t layers = step.model.num_layers;
  const ActivationExchanges times = activation_exchanges(layers, step.layout, step.block_forwards);
  TensorTraffic elements;
  for (const std::size_t sequences : step.micro_batches) {
    const std::size_t tokens = sequences * step.model.max_seq_len;
    const std::size_t once = (ranks - 1) * tokens * step.model.hidden_size;
    elements.all_reduce += 2 * times.all_reduces * once + 3 * all_reduced(ranks, tokens);
    elements.all_gather += times.all_gathers * once;
    elements.reduce_scatter += times.reduce_scatters * once;
    if (step.overlap != TensorOverlap::kRing) continue;
    // Left to all-gathers: the columns' inputs again. The embedding has no product to hide behind.
    const std::size_t gathers = times.all_gathers - (2 * layers + 1) - 1;
    const std::size_t scatters = times.reduce_scatters - 1;
    elements.all_gather -= gathers * once;
    elements.reduce_scatter -= scatters * once;
    elements.send += (gathers + scatters) * once;
  }
  if (ranks > 1) elements.all_reduce += gradients_of_copies(step);
  const std::size_t width = size_of(step.dtype);
  // The squares of each of the 9 weights of a block, of table, last norm and output matrix; and the
  // loss.
  const std::size_t sums = all_reduced(ranks, 9 * layers + 3 + 1) * sizeof(double);
  return {.all_reduce = elements.all_reduce * width + sums,
          .all_gather = elements.all_gather * width,
          .reduce_scatter = elements.reduce_scatter * width,
          .send = elements.send * width};
}

}  // namespace ultra::tensor_parallel
