#pragma once
/// @file
/// A sequence cut into the chunks of ranks, and put together again.
///
/// In causal attention late tokens cost more than early ones: query i sees i + 1 keys. With one
/// chunk each, the last of N ranks computes about twice the average. Zig-zag gives each rank an
/// early chunk and the late one that makes up for it.
///
/// Exercise 06.2 (`./workbook check 06.2`).
/// Body: solutions/06_context_parallel/sequence_chunks.cpp.
/// Source: Llama 3, 2024, arXiv 2407.21783, section 3.3.2; Brandon et al. 2023, "Striped Attention",
/// arXiv 2311.09431, for the imbalance.

#include <span>
#include <vector>

#include "chapters/06_context_parallel/context_layout.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/plan.hpp"

namespace ultra::context_parallel {

/// @brief The tokens of a rank, in ascending order; those from layout.seq_len on are padding.
///
/// kContiguous: one chunk, and the ranks' chunks follow each other. kZigzag: an early chunk and a late
/// one, so that the tokens of every rank see as many others in all.
[[nodiscard]] TokenChunks chunks_of(const ContextLayout& layout, int rank);

/// @brief Gives a rank its tokens of every sequence, in place of all.
///
/// Their positions are those in the whole sequence: rotary attention and the mask go by them. The losses
/// of ranks with more and with fewer real tokens add up to the mean of all.
/// @param plan  of the rank; plan.tokens receives the positions, and the length of a sequence with its
/// padding. The rest of it stays as it is.
void deal_out(train::Plan& plan, const ContextLayout& layout, int rank);

/// @brief Deals a tensor out to ranks by their tokens.
/// @param whole   [batch, tokens, ...] of all these ranks, in the order of their positions.
/// @param chunks  of each rank; together they are all tokens of `whole`.
/// @return [batch, own tokens, ...] of each rank, contiguous.
/// Memory: as much as `whole`.
[[nodiscard]] std::vector<Tensor> split_sequence(const Tensor& whole,
                                                 std::span<const TokenChunks> chunks);

/// @brief Puts the parts of ranks together: the inverse of split_sequence().
/// @param parts   [batch, own tokens, ...] of each rank.
/// @param chunks  of each rank.
/// @return [batch, tokens, ...], in the order of their positions.
[[nodiscard]] Tensor join_sequence(std::span<const Tensor> parts,
                                   std::span<const TokenChunks> chunks);

}  // namespace ultra::context_parallel
