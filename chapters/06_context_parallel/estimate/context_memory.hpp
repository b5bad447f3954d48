#pragma once
/// @file
/// Memory per rank of a training whose sequences are split, by closed form.
///
/// A rank keeps what chapter 05's forms say of a sequence of its own tokens only, padding included:
/// activations fall as 1/cp, states do not fall at all. A method that exchanges tokens for heads keeps
/// attention's output once more: e b s h / t bytes per block, for e bytes per element, b sequences of s
/// tokens on a rank, and hidden size h on t ranks of tp.

#include <cstddef>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "chapters/06_context_parallel/attention_methods/context_method.hpp"
#include "chapters/06_context_parallel/context_layout.hpp"

namespace ultra::context_parallel {

/// @brief Into how many parts, by tokens and by matrices, a model's work is cut.
struct LocalModel {
  ContextLayout layout;                          ///< of the sequences
  MethodChoice choice;                           ///< what travels, and is kept
  tensor_parallel::TensorParallelLayout tensor;  ///< of the matrices
};

/// @brief Bytes that one block keeps per rank between its forward and its backward pass.
/// @param sequences  of the micro-batch.
[[nodiscard]] std::size_t block_activation_bytes(const memory::TransformerShape& shape,
                                                 std::size_t sequences,
                                                 memory::NumberFormats precision,
                                                 memory::Recompute mode, const LocalModel& share);

/// @brief tensor_parallel::unpacked_bytes() of this rank.
[[nodiscard]] std::size_t unpacked_bytes(const memory::TransformerShape& shape,
                                         std::size_t sequences, memory::NumberFormats precision,
                                         memory::Recompute mode, const LocalModel& share);

/// @brief Highest bytes of activations per rank within one micro-batch's forward and backward pass.
///
/// What travels, or is put together for a moment, is not counted.
[[nodiscard]] std::size_t peak_activation_bytes(const memory::TransformerShape& shape,
                                                std::size_t sequences,
                                                memory::NumberFormats precision,
                                                const memory::RecomputeConfig& config,
                                                const LocalModel& share);

}  // namespace ultra::context_parallel
