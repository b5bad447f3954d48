// Exercise 01.1: parameter count and memory estimate.
//
// Exact integers throughout: the estimate of our own model equals the measured bytes, so a rounded
// factor would hide a forgotten tensor.
#include "chapters/01_memory/memory_estimate.hpp"

#include <algorithm>

#include "common/base/numeric.hpp"

namespace ultra::memory {

std::size_t parameter_count(const TransformerShape& shape) {
  const std::size_t h = shape.hidden_size;
  const std::size_t f = shape.ffn_hidden_size;
  const std::size_t tables = shape.embeddings == Embeddings::kTied ? 1 : 2;
  const std::size_t embeddings = tables * shape.vocab_size * h + shape.num_positions * h;
  if (shape.kind == BlockKind::kGpt) {
    const std::size_t attention = 4 * h * h + 4 * h;     // q, k, v, output: weights and biases
    const std::size_t feed_forward = 2 * h * f + f + h;  // up, down: weights and biases
    const std::size_t layer_norm = 2 * h;                // weight and bias
    return embeddings + shape.num_layers * (attention + feed_forward + 2 * layer_norm) + layer_norm;
  }
  const std::size_t attention = 2 * h * h + 2 * h * shape.kv_hidden_size();  // q, output; k, v
  const std::size_t feed_forward = 3 * h * f;                                // gate, up, down
  return embeddings + shape.num_layers * (attention + feed_forward + 2 * h) + h;
}

StateBytes bytes_per_parameter(NumberFormats precision) {
  const std::size_t adam = 2 * sizeof(float);  // momentum and variance
  const std::size_t master = sizeof(float);    // the weights in full precision
  switch (precision) {
    case NumberFormats::kFp64:
      return {.parameters = 8, .gradients = 8, .optimizer = 16};
    case NumberFormats::kFp32:
      return {.parameters = 4, .gradients = 4, .optimizer = adam};
    case NumberFormats::kBf16Mixed:
    case NumberFormats::kTwoBytes:
      break;
    case NumberFormats::kBf16MixedFp32Grads:
      return {.parameters = 2, .gradients = 2 + 4, .optimizer = master + adam};
  }
  return {.parameters = 2, .gradients = 2, .optimizer = master + adam};
}

std::size_t block_activation_bytes(const TransformerShape& shape, const BatchShape& batch,
                                   NumberFormats precision, Recompute mode) {
  const std::size_t e = activation_element_bytes(precision);
  const std::size_t h = shape.hidden_size;
  const std::size_t f = shape.ffn_hidden_size;
  const std::size_t tokens = batch.tokens();
  if (mode == Recompute::kFull) return e * tokens * h;

  if (shape.kind == BlockKind::kGpt) {
    // Inputs of 2 norms, of qkv, output and first feed-forward matrix; q, k, v: 8 h. GELU's input
    // and output: 2 f. Dropout masks behind attention and feed-forward part: 2 h bytes.
    const std::size_t linear_in_seq = tokens * (e * (8 * h + 2 * f) + 2 * h);
    if (mode == Recompute::kSelective) return linear_in_seq;
    // Softmax's output, its dropout's mask (1 byte) and output, per head and pair of positions.
    return linear_in_seq + (2 * e + 1) * shape.num_heads * batch.seq_len * tokens;
  }
  const std::size_t norms = 2 * h + 2;  // inputs, 1 / rms
  const std::size_t attention = 2 * h + 2 * shape.kv_hidden_size() + shape.num_heads;
  const std::size_t feed_forward = 2 * f;  // gate, up
  const std::size_t kept = norms + attention + feed_forward;
  const std::size_t again = mode == Recompute::kSelective ? 0 : 2 * h + f;  // norm outputs, product
  const std::size_t wider = (row_sum_bytes(precision) - e) * tokens * (2 + shape.num_heads);
  return e * tokens * (kept + again) + wider;
}

OutsideBytes outside_activation_bytes(const TransformerShape& shape, const BatchShape& batch,
                                      NumberFormats precision) {
  const std::size_t e = activation_element_bytes(precision);
  const std::size_t h = shape.hidden_size;
  const std::size_t v = shape.vocab_size;
  if (shape.kind == BlockKind::kGpt) {
    return {.embedding = batch.tokens() * h, .head = batch.tokens() * (2 * e * h + 4 * v)};
  }
  const std::size_t logits = e * v * ceil_div(batch.tokens(), batch.head_chunks);
  const std::size_t targets = batch.head_chunks > 1 ? 4 * batch.tokens() : 0;
  return {.embedding = batch.tokens() * 4,
          .head = batch.tokens() * (2 * e * h + row_sum_bytes(precision)) + targets + logits};
}

std::size_t peak_activation_bytes(const TransformerShape& shape, const BatchShape& batch,
                                  NumberFormats precision, const RecomputeConfig& config) {
  const std::size_t layers = shape.num_layers;
  const auto [embedding, head] = outside_activation_bytes(shape, batch, precision);
  const std::size_t whole = block_activation_bytes(shape, batch, precision, Recompute::kNone);
  const std::size_t kept = block_activation_bytes(shape, batch, precision, config.mode);

  if (config.mode != Recompute::kFull) {
    const std::size_t at_loss = layers * kept + head;
    const std::size_t in_last_block = layers * kept + (whole - kept);
    return embedding + std::max(at_loss, in_last_block);
  }
  const std::size_t groups = ceil_div(layers, config.recompute_every);
  std::size_t peak = groups * kept + head;  // at the loss
  for (std::size_t group = 0; group < groups; ++group) {
    // In this group's backward: the inputs of the groups before it, and its blocks in full. Its own
    // input is the first of these blocks' input, so it is counted there.
    const std::size_t blocks =
        std::min(config.recompute_every, layers - group * config.recompute_every);
    peak = std::max(peak, group * kept + blocks * whole);
  }
  return embedding + peak;
}

}  // namespace ultra::memory
