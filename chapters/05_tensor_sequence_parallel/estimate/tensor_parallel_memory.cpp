#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"

#include <algorithm>

#include "common/base/numeric.hpp"
#include "common/nn/model_config.hpp"

namespace ultra::tensor_parallel {

using memory::BatchShape;
using memory::BlockKind;
using memory::NumberFormats;
using memory::OutsideBytes;
using memory::Recompute;
using memory::TransformerShape;

namespace {

/// kv: width of this rank's keys, and of its values.
std::size_t local_kv_size(const TransformerShape& shape, const TensorParallelLayout& layout) {
  return layout.local_kv_heads(shape.num_kv_heads) * shape.head_dim();
}

/// l: tokens that this rank has between the matrices.
std::size_t local_tokens(const BatchShape& batch, const TensorParallelLayout& layout) {
  return batch.size * layout.local_seq_len(batch.seq_len);
}

std::size_t gpt_block_bytes(const TransformerShape& shape, const BatchShape& batch, std::size_t e,
                            Recompute mode, const TensorParallelLayout& layout) {
  const std::size_t h = shape.hidden_size;
  // Inputs of 2 norms and of 2 matrices, 2 dropout masks.
  const std::size_t between = local_tokens(batch, layout) * (4 * e * h + 2 * h);
  // Query, key, value, attention's output; GELU's input and output.
  const std::size_t inside = batch.tokens() * e * (4 * h + 2 * shape.ffn_hidden_size);
  // Softmax's output, its dropout's mask (1 byte) and output.
  const std::size_t scores = (2 * e + 1) * shape.num_heads * batch.seq_len * batch.tokens();
  return between + (inside + (mode == Recompute::kNone ? scores : 0)) / layout.ranks();
}

std::size_t llama_block_bytes(const TransformerShape& shape, const BatchShape& batch,
                              NumberFormats precision, Recompute mode,
                              const TensorParallelLayout& layout) {
  const std::size_t e = memory::activation_element_bytes(precision);
  const std::size_t h = shape.hidden_size;
  const std::size_t f = shape.ffn_hidden_size;
  const std::size_t t = layout.ranks();
  const std::size_t l = local_tokens(batch, layout);
  const std::size_t elements =
      2 * l * h + batch.tokens() * ((2 * h + 2 * f) / t + 2 * local_kv_size(shape, layout));
  const std::size_t row_sums = 2 * l + batch.tokens() * (shape.num_heads / t);
  // A rank has the scales of a token's whole row.
  const auto input = [&](std::size_t tokens, std::size_t features, std::size_t parts) {
    return memory::linear_input_bytes(precision, tokens, features / parts) -
           memory::scale_bytes(precision, tokens, features / parts) +
           memory::scale_bytes(precision, tokens, features);
  };
  std::size_t bytes = e * elements + memory::row_sum_bytes(precision) * row_sums;
  // Of the output projection: beside the core's output, where it keeps codes of its own.
  if (memory::keeps_codes(precision)) bytes += input(batch.tokens(), h, t);
  if (mode == Recompute::kSelective) {  // scales stay
    return bytes + 2 * memory::scale_bytes(precision, l, h) +
           memory::scale_bytes(precision, batch.tokens(), f);
  }
  return bytes + 2 * input(l, h, 1) + input(batch.tokens(), f, t);  // norm outputs, product
}

}  // namespace

void validate(const TransformerShape& shape, const BatchShape& batch,
              const TensorParallelLayout& layout) {
  layout.validate({.vocab_size = shape.vocab_size,
                   .hidden_size = shape.hidden_size,
                   .num_layers = shape.num_layers,
                   .num_heads = shape.num_heads,
                   .num_kv_heads = shape.num_kv_heads,
                   .ffn_hidden_size = shape.ffn_hidden_size,
                   .max_seq_len = batch.seq_len});
}

std::size_t parameter_count(const TransformerShape& shape, const TensorParallelLayout& layout) {
  const std::size_t h = shape.hidden_size;
  const std::size_t f = shape.ffn_hidden_size;
  const std::size_t t = layout.ranks();
  const std::size_t tables = shape.embeddings == memory::Embeddings::kTied ? 1 : 2;
  const std::size_t embeddings =
      tables * layout.local_vocab_size(shape.vocab_size) * h + shape.num_positions * h;
  if (shape.kind == BlockKind::kGpt) {
    const std::size_t weights = (4 * h * h + 2 * h * f) / t;
    const std::size_t split_biases = (3 * h + f) / t;  // of query, key, value; of the first matrix
    const std::size_t whole_biases = 2 * h;            // behind attention and feed-forward part
    const std::size_t layer_norm = 2 * h;              // weight and bias
    return embeddings +
           shape.num_layers * (weights + split_biases + whole_biases + 2 * layer_norm) + layer_norm;
  }
  const std::size_t weights = (2 * h * h + 3 * h * f) / t + 2 * h * local_kv_size(shape, layout);
  return embeddings + shape.num_layers * (weights + 2 * h) + h;
}

std::size_t block_activation_bytes(const TransformerShape& shape, const BatchShape& batch,
                                   NumberFormats precision, Recompute mode,
                                   const TensorParallelLayout& layout) {
  const std::size_t e = memory::activation_element_bytes(precision);
  if (mode == Recompute::kFull) return e * local_tokens(batch, layout) * shape.hidden_size;
  return shape.kind == BlockKind::kGpt ? gpt_block_bytes(shape, batch, e, mode, layout)
                                       : llama_block_bytes(shape, batch, precision, mode, layout);
}

std::size_t unpacked_bytes(const TransformerShape& shape, const BatchShape& batch,
                           NumberFormats precision, Recompute mode,
                           const TensorParallelLayout& layout) {
  if (!memory::keeps_codes(precision)) return 0;
  const auto of_block = [&](Recompute kept) {
    return block_activation_bytes(shape, batch, precision, kept, layout);
  };
  const std::size_t e = memory::activation_element_bytes(precision);
  const std::size_t widest = e * batch.tokens() * (shape.ffn_hidden_size / layout.ranks());
  if (mode != Recompute::kSelective) return widest;
  // What is computed again is no code yet.
  const std::size_t norms = 2 * e * local_tokens(batch, layout) * shape.hidden_size;
  return norms + 2 * widest - (of_block(Recompute::kNone) - of_block(mode));
}

OutsideBytes outside_activation_bytes(const TransformerShape& shape, const BatchShape& batch,
                                      NumberFormats precision, const TensorParallelLayout& layout) {
  const std::size_t e = memory::activation_element_bytes(precision);
  const std::size_t h = shape.hidden_size;
  const std::size_t v = layout.local_vocab_size(shape.vocab_size);
  const std::size_t tokens = batch.tokens();
  const std::size_t l = local_tokens(batch, layout);
  if (shape.kind == BlockKind::kGpt) {
    return {.embedding = l * h, .head = 2 * e * l * h + 4 * tokens * v};
  }
  return {.embedding = 4 * tokens,
          .head = e * (2 * l * h + tokens * v) + memory::row_sum_bytes(precision) * l};
}

std::size_t peak_of_blocks(std::size_t layers, const memory::RecomputeConfig& config,
                           std::size_t kept, std::size_t whole, const OutsideBytes& outside,
                           std::size_t unpacked) {
  const std::size_t blocks = config.mode == Recompute::kFull ? config.recompute_every : 1;
  const std::size_t groups = ceil_div(layers, blocks);

  std::size_t peak = groups * kept + outside.head;  // at the loss
  for (std::size_t group = 0; group < groups; ++group) {
    // In this group's backward: what the groups before it keep, and its blocks in full.
    const std::size_t again = std::min(blocks, layers - group * blocks);
    peak = std::max(peak, group * kept + again * whole + unpacked);
  }
  return outside.embedding + peak;
}

std::size_t peak_activation_bytes(const TransformerShape& shape, const BatchShape& batch,
                                  NumberFormats precision, const memory::RecomputeConfig& config,
                                  const TensorParallelLayout& layout) {
  return peak_of_blocks(shape.num_layers, config,
                        block_activation_bytes(shape, batch, precision, config.mode, layout),
                        block_activation_bytes(shape, batch, precision, Recompute::kNone, layout),
                        outside_activation_bytes(shape, batch, precision, layout),
                        unpacked_bytes(shape, batch, precision, config.mode, layout));
}

}  // namespace ultra::tensor_parallel
