#pragma once
/// @file
/// Memory per rank of a model that is split over tensor-parallel ranks, by closed form.
///
/// Legend: t ranks; h hidden_size, f ffn_hidden_size, a num_heads, d = h / a, V vocab_size,
/// kv = d times the key/value heads per rank, v = ceil(V / t), e bytes per element, s seq_len, b
/// micro-batch size, tokens = b s. Between the matrices a rank has l tokens of them: all without
/// sequence parallelism, tokens / t with it.
///
/// Each form is chapter 01's (memory_estimate.hpp) for t = 1. All assume that the layout can split
/// the model (TensorParallelLayout::validate) and, with sequence parallelism, that t divides s.

#include <cstddef>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"

namespace ultra::tensor_parallel {

/// @brief Checks that the layout can split the model and the sequences of a batch.
/// @throws ConfigError with the equation that does not hold, its values and the flag to change.
void validate(const memory::TransformerShape& shape, const memory::BatchShape& batch,
              const TensorParallelLayout& layout);

/// @brief Number of weights per rank, with its copies of those that are not split.
///
/// Whole on every rank: norms, learned positions, and the biases behind matrices that are split by
/// their input. Token tables have v rows per rank.
/// kGpt:   v h (1 | 2) + num_positions h + L ((4 h^2 + 3 h + 2 h f + f) / t + 6 h) + 2 h.
/// kLlama: v h (1 | 2) + L ((2 h^2 + 3 h f) / t + 2 h kv + 2 h) + h.
/// Source: Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3.
[[nodiscard]] std::size_t parameter_count(const memory::TransformerShape& shape,
                                          const TensorParallelLayout& layout);

/// @brief Bytes that one block keeps per rank between its forward and its backward pass.
///
/// kGpt, with dropout masks of 1 byte:
/// - kNone:      l (4 e h + 2 h) + tokens (e (4 h + 2 f) + (2 e + 1) a s) / t. For e = 2 and
///               f = 4 h: s b h (10 + 24 / t + 5 a s / (h t)), and with sequence parallelism
///               s b h (34 + 5 a s / h) / t;
/// - kSelective: the same without the term with s;
/// - kFull:      e l h, the block's input.
///
/// kLlama, our block:
/// - kNone:      e l (4 h + 2) + e tokens ((2 h + 3 f + a) / t + 2 kv): of l tokens the norms' inputs,
///               1/rms and outputs; of all tokens query, attention's output and log-sum-exp, gate,
///               up and their product, key and value;
/// - kSelective: without the norms' outputs and the product, e (2 l h + tokens f / t) less;
/// - kFull:      e l h, the block's input.
///
/// A matrix that is split by its output keeps its input as it came: whole, or the rank's part of
/// each sequence, which it gathers again in the backward pass.
/// Source: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
/// Models", arXiv 2205.05198, eq. 2 and 4 and table 2, for kGpt.
[[nodiscard]] std::size_t block_activation_bytes(const memory::TransformerShape& shape,
                                                 const memory::BatchShape& batch,
                                                 memory::NumberFormats precision,
                                                 memory::Recompute mode,
                                                 const TensorParallelLayout& layout);

/// @brief Bytes that embedding and head keep per rank.
///
/// kGpt:   embedding l h (dropout mask); head 2 e l h + 4 tokens v.
/// kLlama: embedding 4 tokens (every rank has all token ids); head e l (2 h + 1) + e tokens v.
/// Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.3, where t divides V.
[[nodiscard]] memory::OutsideBytes outside_activation_bytes(const memory::TransformerShape& shape,
                                                            const memory::BatchShape& batch,
                                                            memory::NumberFormats precision,
                                                            const TensorParallelLayout& layout);

/// @brief Bytes that a block in its backward pass has beside those that it keeps without
/// recomputation: the widest input of a linear layer in fp8, unpacked, and inputs that are computed
/// again.
/// @param mode  in which it keeps activations until then.
[[nodiscard]] std::size_t unpacked_bytes(const memory::TransformerShape& shape,
                                         const memory::BatchShape& batch,
                                         memory::NumberFormats precision, memory::Recompute mode,
                                         const TensorParallelLayout& layout);

/// @brief The highest of the moments that memory::peak_activation_bytes names, of blocks that keep so
/// many bytes.
/// @param kept     of a block between its passes, with the recomputation asked for.
/// @param whole    of a block that is computed again, without it.
/// @param outside   of embedding and head.
/// @param unpacked  of one block beside, while it goes backward.
[[nodiscard]] std::size_t peak_of_blocks(std::size_t layers, const memory::RecomputeConfig& config,
                                         std::size_t kept, std::size_t whole,
                                         const memory::OutsideBytes& outside,
                                         std::size_t unpacked = 0);

/// @brief Highest bytes of activations per rank within one micro-batch's forward and backward pass.
///
/// The highest of the moments that memory::peak_activation_bytes names. What is gathered for one
/// matrix is not counted.
/// @param config  mode and K.
[[nodiscard]] std::size_t peak_activation_bytes(const memory::TransformerShape& shape,
                                                const memory::BatchShape& batch,
                                                memory::NumberFormats precision,
                                                const memory::RecomputeConfig& config,
                                                const TensorParallelLayout& layout);

}  // namespace ultra::tensor_parallel
