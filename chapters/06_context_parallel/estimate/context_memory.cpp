#include "chapters/06_context_parallel/estimate/context_memory.hpp"

#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"

namespace ultra::context_parallel {
namespace {

/// The part of a micro-batch that is on a rank.
memory::BatchShape local_batch(std::size_t sequences, const LocalModel& share) {
  return {.size = sequences, .seq_len = share.layout.local_seq_len()};
}

}  // namespace

std::size_t block_activation_bytes(const memory::TransformerShape& shape, std::size_t sequences,
                                   memory::NumberFormats precision, memory::Recompute mode,
                                   const LocalModel& share) {
  const memory::BatchShape batch = local_batch(sequences, share);
  const std::size_t bytes =
      tensor_parallel::block_activation_bytes(shape, batch, precision, mode, share.tensor);
  if (share.choice.ulysses == 1 || mode == memory::Recompute::kFull) return bytes;
  return bytes + memory::activation_element_bytes(precision) * batch.tokens() * shape.hidden_size /
                     share.tensor.ranks();
}

std::size_t unpacked_bytes(const memory::TransformerShape& shape, std::size_t sequences,
                           memory::NumberFormats precision, memory::Recompute mode,
                           const LocalModel& share) {
  return tensor_parallel::unpacked_bytes(shape, local_batch(sequences, share), precision, mode,
                                         share.tensor);
}

std::size_t peak_activation_bytes(const memory::TransformerShape& shape, std::size_t sequences,
                                  memory::NumberFormats precision,
                                  const memory::RecomputeConfig& config, const LocalModel& share) {
  return tensor_parallel::peak_of_blocks(
      shape.num_layers, config,
      block_activation_bytes(shape, sequences, precision, config.mode, share),
      block_activation_bytes(shape, sequences, precision, memory::Recompute::kNone, share),
      tensor_parallel::outside_activation_bytes(shape, local_batch(sequences, share), precision,
                                                share.tensor),
      unpacked_bytes(shape, sequences, precision, config.mode, share));
}

}  // namespace ultra::context_parallel
