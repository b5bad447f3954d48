// Exercise 01.1: parameter count and memory estimate.
//
// Goal:        predict the bytes of a training step, exactly, before anything is allocated.
// Length:      about 45 lines in five functions; each can be checked before the next is written.
// Difficulty:  easy (1 to 4), medium (5)
// Check:       ./workbook check 01.1
// Hints:       ./workbook hint 01.1
// Targets:     GPT-2 124M                124,439,808 parameters
//              Llama 3 8B              8,030,261,248 parameters
//              AdamW                   16 bytes per parameter in fp32 and in bf16-mixed, 20 with
//                                      fp32 gradient accumulation
//              GPT-3, 1 x 2048 tokens  its 96 layers keep 275.41 GB, 82.14 GB with selective and
//                                      4.83 GB with full recomputation
//              the peak                equals the measured bytes of a real model, byte for byte
//
// chapters/01_memory/memory_estimate.hpp declares the types and says what is counted, with the
// sources. Derive each form from the model (common/nn/): which tensors does the backward pass of
// each layer need, and which of them are one and the same tensor?
#include "chapters/01_memory/memory_estimate.hpp"

#include "common/base/errors.hpp"

namespace ultra::memory {

// TODO 1 (about 12 lines): count every weight once.
// - The token table, a second one for an untied output projection, learned positions.
// - kGpt: LayerNorms and linear maps have biases; the feed-forward part has two matrices.
// - kLlama: no biases; key and value have num_kv_heads heads; three feed-forward matrices.
// - One more norm behind the last block.
std::size_t parameter_count([[maybe_unused]] const TransformerShape& shape) {
  throw NotWritten("01.1 memory_estimate: parameter_count");
}

// TODO 2 (about 8 lines): bytes per parameter of weights, gradients and optimizer states.
// AdamW keeps two numbers per parameter. Mixed precision keeps its states, and a master copy of
// the weights, in fp32.
StateBytes bytes_per_parameter([[maybe_unused]] NumberFormats precision) {
  throw NotWritten("01.1 memory_estimate: bytes_per_parameter");
}

// TODO 3 (about 12 lines): bytes that one block keeps from its forward to its backward pass.
// List the saved tensors of each part of the block, in elements per token. In kGpt, dropout masks
// take 1 byte per element whatever the precision, and the attention part stores num_heads matrices
// of s x s per sequence. kLlama never does: it keeps one log-sum-exp per head and token.
std::size_t block_activation_bytes([[maybe_unused]] const TransformerShape& shape,
                                   [[maybe_unused]] const BatchShape& batch,
                                   [[maybe_unused]] NumberFormats precision,
                                   [[maybe_unused]] Recompute mode) {
  throw NotWritten("01.1 memory_estimate: block_activation_bytes");
}

// TODO 4 (about 7 lines): bytes that the embedding and the head keep. Ours may make its logits in pieces.
OutsideBytes outside_activation_bytes([[maybe_unused]] const TransformerShape& shape,
                                      [[maybe_unused]] const BatchShape& batch,
                                      [[maybe_unused]] NumberFormats precision) {
  throw NotWritten("01.1 memory_estimate: outside_activation_bytes");
}

// TODO 5 (about 12 lines): the highest bytes of activations within forward and backward.
// Write it as the highest of a few moments. Which tensors are alive when the loss is computed?
// Which when a block (kSelective) or a group of K blocks (kFull) has just been recomputed? Which
// are already gone by then?
std::size_t peak_activation_bytes([[maybe_unused]] const TransformerShape& shape,
                                  [[maybe_unused]] const BatchShape& batch,
                                  [[maybe_unused]] NumberFormats precision,
                                  [[maybe_unused]] const RecomputeConfig& config) {
  throw NotWritten("01.1 memory_estimate: peak_activation_bytes");
}

}  // namespace ultra::memory
