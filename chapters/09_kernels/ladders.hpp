#pragma once
/// @file
/// All ladders of the chapter.

#include <memory>
#include <vector>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Matrix products in fp32 on CUDA cores; sizes are rows x columns x depth.
[[nodiscard]] std::unique_ptr<Ladder> matmul_fp32_ladder();

/// @brief Matrix products in bf16 on tensor cores; sizes are rows x columns x depth.
[[nodiscard]] std::unique_ptr<Ladder> matmul_bf16_ladder();

/// @brief Matrix products in bf16 with few tiles and a long depth; sizes are rows x columns x depth
/// x blocks that run at a time.
[[nodiscard]] std::unique_ptr<Ladder> split_k_ladder();

/// @brief Transpositions; sizes are rows x columns of the input.
[[nodiscard]] std::unique_ptr<Ladder> transpose_ladder();

/// @brief Rotary position embedding; sizes are tokens x pairs of elements.
[[nodiscard]] std::unique_ptr<Ladder> divergence_ladder();

/// @brief Mean losses of packed sequences; sizes are sequences x their mean length.
[[nodiscard]] std::unique_ptr<Ladder> packed_sequences_ladder();

/// @brief Norms of vectors, as gradient clipping needs them; the size is n.
[[nodiscard]] std::unique_ptr<Ladder> reduction_ladder();

/// @brief Softmax of every row; sizes are rows x columns.
[[nodiscard]] std::unique_ptr<Ladder> softmax_ladder();

/// @brief Residual addition and RMSNorm in fp32; sizes are rows x hidden.
[[nodiscard]] std::unique_ptr<Ladder> rms_norm_ladder();

/// @brief Gradients of RMSNorm in fp32; sizes are rows x hidden.
[[nodiscard]] std::unique_ptr<Ladder> rms_norm_backward_ladder();

/// @brief Rotary position embedding in fp32, in place; odd seeds turn forward, even ones back;
/// sizes are tokens x query heads x key heads x pairs.
[[nodiscard]] std::unique_ptr<Ladder> rope_ladder();

/// @brief silu(gate) up in fp32; sizes are tokens x ffn.
[[nodiscard]] std::unique_ptr<Ladder> swiglu_ladder();

/// @brief Gradients of silu(gate) up in fp32; sizes are tokens x ffn.
[[nodiscard]] std::unique_ptr<Ladder> swiglu_backward_ladder();

/// @brief Losses per token, and gradients in place of the logits, in fp32; sizes are tokens x
/// vocab.
[[nodiscard]] std::unique_ptr<Ladder> cross_entropy_ladder();

/// @brief AdamW steps; sizes are tensors x parameters of an average tensor.
[[nodiscard]] std::unique_ptr<Ladder> adamw_ladder();

/// @brief Residual addition and RMSNorm in bf16; sizes are rows x hidden.
[[nodiscard]] std::unique_ptr<Ladder> rms_norm_bf16_ladder();

/// @brief silu(gate) up in bf16; sizes are tokens x ffn.
[[nodiscard]] std::unique_ptr<Ladder> swiglu_bf16_ladder();

/// @brief An AdamW step of bf16 parameters with a master copy in fp32; the size is their number.
[[nodiscard]] std::unique_ptr<Ladder> adamw_bf16_ladder();

/// @brief Tokens in the order of their experts, in bf16; sizes are tokens x hidden x experts x
/// top_k.
[[nodiscard]] std::unique_ptr<Ladder> token_permutation_ladder();

/// @brief Each expert's product of its tokens and its weights, in bf16 on tensor cores; sizes are
/// experts x rows of all experts x columns x depth.
[[nodiscard]] std::unique_ptr<Ladder> grouped_matmul_ladder();

/// @brief Losses of a linear layer's outputs, without or with logits in memory; sizes are tokens x
/// vocab x hidden.
[[nodiscard]] std::unique_ptr<Ladder> linear_cross_entropy_ladder();

/// @brief bf16 to fp8 with a scale for each 128 elements; sizes are rows x columns.
[[nodiscard]] std::unique_ptr<Ladder> quantize_fp8_ladder();

/// @brief Attention's forward pass in fp32 on CUDA cores; sizes are batch x kv_heads x group x
/// seq_len x head_dim, where `group` heads of queries share a head of keys and values. Odd seeds
/// are causal.
[[nodiscard]] std::unique_ptr<Ladder> attention_ladder();

/// @brief Attention's forward pass in bf16 on tensor cores; sizes and seeds as for
/// attention_ladder().
[[nodiscard]] std::unique_ptr<Ladder> attention_bf16_ladder();

/// @brief Attention's backward pass in fp32 on CUDA cores; sizes and seeds as for
/// attention_ladder().
[[nodiscard]] std::unique_ptr<Ladder> attention_backward_ladder();

/// @brief Attention's backward pass in bf16 on tensor cores; sizes and seeds as for
/// attention_ladder().
[[nodiscard]] std::unique_ptr<Ladder> attention_backward_bf16_ladder();

/// @brief Products whose factors lie either way, as a backward pass has them; sizes are rows x
/// columns x depth. The seed modulo 3 says which factors turn (0: none, 1: both, 2: b), and a third
/// of it modulo 2 whether sums are added to in fp32 (0) or written in bf16.
[[nodiscard]] std::unique_ptr<Ladder> matmul_turned_ladder();

/// @brief Matrix products in fp8 with block scales; sizes are rows x columns x depth.
[[nodiscard]] std::unique_ptr<Ladder> matmul_fp8_ladder();

/// @brief Gradients of linear_cross_entropy_ladder(), with or without all of the logits' in memory;
/// sizes are tokens x vocab x hidden.
[[nodiscard]] std::unique_ptr<Ladder> linear_cross_entropy_backward_ladder();

/// @brief Attention within each document of a pack, in bf16 on tensor cores; sizes are documents x
/// their mean length x kv_heads x group x head_dim. Odd seeds are causal.
[[nodiscard]] std::unique_ptr<Ladder> attention_varlen_ladder();

/// @brief Its backward pass; sizes and seeds as for attention_varlen_ladder().
[[nodiscard]] std::unique_ptr<Ladder> attention_backward_varlen_ladder();

/// @brief Attention of one query for each sequence, with keys and values in pages; sizes are batch x
/// tokens of the longest sequence x kv_heads x group x head_dim.
[[nodiscard]] std::unique_ptr<Ladder> attention_decode_ladder();

/// @brief A chain of small kernels; sizes are layers x hidden.
[[nodiscard]] std::unique_ptr<Ladder> small_launches_ladder();

/// @brief All of them, in the order of the chapter's text.
[[nodiscard]] std::vector<std::unique_ptr<Ladder>> all_ladders();

}  // namespace ultra::ladders
