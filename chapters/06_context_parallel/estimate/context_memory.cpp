#include "chapters/06_context_parallel/estimate/context_memory.hpp"

#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"

namespace ultra::context_parallel {
namespace {

/// The part of a micro-batch that is on a rank.
memory::MicroBatch local_batch(std::size_t sequences, const RankShare& share) {
  return {.size = sequences, .seq_len = share.layout.local_seq_len()};
}

}  // namespace

std::size_t block_activation_bytes(const memory::TransformerShape& shape, std::size_t sequences,
                                   memory::Precision precision, memory::Recompute mode,
                                   const RankShare& share) {
  const memory::MicroBatch batch = local_batch(sequences, share);
  const std::size_t bytes =
      tensor_parallel::block_activation_bytes(shape, batch, precision, mode, share.tensor);
  if (share.choice.ulysses == 1 || mode == memory::Recompute::kFull) return bytes;
  return bytes + memory::activation_element_bytes(precision) * batch.tokens() * shape.hidden_size /
                     share.tensor.ranks();
}

std::size_t peak_activation_bytes(const memory::TransformerShape& shape, std::size_t sequences,
                                  memory::Precision precision,
                                  const memory::RecomputeConfig& config, const RankShare& share) {
  const auto of_block = [&](memory::Recompute mode) {
    return block_activation_bytes(shape, sequences, precision, mode, share);
  };
  return tensor_parallel::peak_of_blocks(
      shape.num_layers, config, of_block(config.mode), of_block(memory::Recompute::kNone),
      tensor_parallel::outside_activation_bytes(shape, local_batch(sequences, share), precision,
                                                share.tensor));
}

}  // namespace ultra::context_parallel
