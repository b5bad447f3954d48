#pragma once
/// @file
/// Memory of a training step by closed form: parameters, gradients, optimizer states, activations.
///
/// Exercise 01.1 (`./workbook check 01.1`). Legend: h hidden_size, f ffn_hidden_size, L num_layers,
/// V vocab_size, d = h / num_heads, kv = num_kv_heads * d, e bytes per element, s seq_len,
/// b micro-batch size, tokens = b s.

#include <cstddef>
#include <string>

#include "chapters/01_memory/recompute_mode.hpp"

/// @brief Chapter 01: the memory of a training step, and two ways to need less of it.
namespace ultra::memory {

/// @brief The two families of transformer blocks whose memory is known in closed form.
enum class BlockKind {
  kGpt,  ///< LayerNorm, biases everywhere, two-matrix GELU feed-forward part, dropout, stored S x S
  kLlama  ///< RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases: our own block
};

/// @brief Whether the output projection reuses the token table.
enum class Embeddings {
  kUntied,  ///< two tables of V x h
  kTied     ///< one
};

/// @brief The dimensions that decide how much memory a model takes.
struct TransformerShape {
  std::string name;                             ///< for messages and tables
  BlockKind kind = BlockKind::kLlama;           ///< which block
  std::size_t num_layers = 0;                   ///< L, blocks
  std::size_t hidden_size = 0;                  ///< h, width of the residual stream
  std::size_t num_heads = 0;                    ///< query heads; divides h
  std::size_t num_kv_heads = 0;                 ///< key/value heads; divides num_heads
  std::size_t ffn_hidden_size = 0;              ///< f, width inside the feed-forward part
  std::size_t vocab_size = 0;                   ///< V, rows of a token table
  std::size_t num_positions = 0;                ///< rows of the learned position table; 0: none
  Embeddings embeddings = Embeddings::kUntied;  ///< one token table or two

  /// @brief d, elements per head.
  [[nodiscard]] std::size_t head_dim() const { return hidden_size / num_heads; }
  /// @brief kv, width of the key (and of the value) projection.
  [[nodiscard]] std::size_t kv_hidden_size() const { return num_kv_heads * head_dim(); }

  bool operator==(const TransformerShape&) const = default;
};

/// @brief In which formats a step keeps its numbers.
enum class NumberFormats {
  kFp64,                ///< everything in 8 bytes: `--dtype f64`, for comparing computations
  kFp32,                ///< everything in 4 bytes: `--dtype f32`
  kBf16Mixed,           ///< bf16 weights, gradients, activations; fp32 master weights, Adam states
  kBf16MixedFp32Grads,  ///< the same, with gradients accumulated in a second, fp32 buffer
  kTwoBytes             ///< as kBf16Mixed, and numbers that sum up a row stay in fp32
};

/// @brief e, bytes of one element of an activation.
[[nodiscard]] constexpr std::size_t activation_element_bytes(NumberFormats precision) {
  switch (precision) {
    case NumberFormats::kFp64:
      return 8;
    case NumberFormats::kFp32:
      return 4;
    case NumberFormats::kBf16Mixed:
    case NumberFormats::kBf16MixedFp32Grads:
    case NumberFormats::kTwoBytes:
      break;
  }
  return 2;
}

/// @brief Bytes of a number that sums up a row: 1/rms, a log-sum-exp, an expert's affinity.
///
/// e, but in a training whose types say otherwise.
[[nodiscard]] constexpr std::size_t row_sum_bytes(NumberFormats precision) {
  return precision == NumberFormats::kTwoBytes ? 4 : activation_element_bytes(precision);
}

/// @brief Bytes of the model's states, per parameter or in total.
struct StateBytes {
  std::size_t parameters = 0;  ///< the weights that the passes compute with
  std::size_t gradients = 0;   ///< their gradients, with the fp32 buffer where there is one
  std::size_t optimizer = 0;   ///< Adam's two moments, with the fp32 master weights where needed

  /// @brief All states together.
  [[nodiscard]] std::size_t total() const { return parameters + gradients + optimizer; }
  bool operator==(const StateBytes&) const = default;
};

/// @brief What one forward and backward pass works on.
struct BatchShape {
  std::size_t size = 1;         ///< b, sequences
  std::size_t seq_len = 0;      ///< s, tokens per sequence
  std::size_t head_chunks = 1;  ///< C, pieces of the tokens in which the head computes its logits

  /// @brief b s.
  [[nodiscard]] std::size_t tokens() const { return size * seq_len; }
  bool operator==(const BatchShape&) const = default;
};

/// @brief Bytes of the activations that no block keeps.
struct OutsideBytes {
  std::size_t embedding = 0;  ///< kept by the embedding, until the very end of backward
  std::size_t head = 0;       ///< kept by final norm, output projection and loss, and dropped
                              ///< before the backward pass of the first block starts

  bool operator==(const OutsideBytes&) const = default;
};

/// @brief Number of weights, each counted once.
///
/// A token table, a second one when it is not tied, learned positions where there are any, the
/// blocks' matrices, norms and (kGpt) biases, and one more norm behind the last block.
/// Source: the Ultra-Scale Playbook, "Memory for weights/grads/optimizer states"; the shapes of
/// Hugging Face's `GPT2LMHeadModel` and `LlamaForCausalLM`.
[[nodiscard]] std::size_t parameter_count(const TransformerShape& shape);

/// @brief Bytes per parameter, trained with AdamW.
///
/// Mixed precision has the weights twice, once in fp32 for the optimizer; kBf16MixedFp32Grads has the
/// gradients twice as well.
/// Source: Rajbhandari et al. 2020 (ZeRO), arXiv 1910.02054, sec. 3.1; the Ultra-Scale Playbook.
/// Megatron-LM needs 18 instead of 20: its gradients are in the fp32 buffer only.
[[nodiscard]] StateBytes bytes_per_parameter(NumberFormats precision);

/// @brief Bytes that one block keeps between its forward and its backward pass, under `mode`.
///
/// Activations have e bytes per element. A tensor that two layers keep is one tensor.
/// - kNone:      what each layer of the block needs for its backward pass. kGpt: dropout masks have
///               1 byte per element, and attention stores its S x S matrices: the softmax's output,
///               its dropout mask, and the product of both. kLlama: attention stores no such
///               matrix, but one log-sum-exp per head and token; a norm keeps 1/rms of each token.
/// - kSelective: kGpt computes everything of S x S again; kLlama the outputs of both norms and
///               SwiGLU's product.
/// - kFull:      the block's input alone.
/// 1/rms and log-sum-exp have row_sum_bytes().
/// Source: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
/// Models", arXiv 2205.05198, eq. 1 and table 2.
[[nodiscard]] std::size_t block_activation_bytes(const TransformerShape& shape,
                                                 const BatchShape& batch, NumberFormats precision,
                                                 Recompute mode);

/// @brief Bytes that embedding and head keep.
///
/// kGpt:   the embedding keeps its dropout mask; the head the inputs of the final norm and of the
///         output projection, and the logits, in fp32.
/// kLlama: the embedding keeps the token ids, of 4 bytes; the head the same two inputs, 1/rms, and
///         the gradient of the logits, which overwrites them: of C > 1 pieces, those of the longest,
///         ceil(b s / C) tokens, and the targets, of 4 bytes, from which the others are made.
/// Source: Korthikanti et al. 2022, sec. 4.3; ours: common/nn/model.cpp.
[[nodiscard]] OutsideBytes outside_activation_bytes(const TransformerShape& shape,
                                                    const BatchShape& batch,
                                                    NumberFormats precision);

/// @brief Highest bytes of activations within one micro-batch's forward and backward pass.
///
/// The highest of a few moments, which never meet.
/// @param config  mode and K, the blocks of a group that is recomputed together.
[[nodiscard]] std::size_t peak_activation_bytes(const TransformerShape& shape,
                                                const BatchShape& batch, NumberFormats precision,
                                                const RecomputeConfig& config);

}  // namespace ultra::memory
