#pragma once
/// @file
/// The ladder of attention over packed documents: documents of different lengths lie one after the
/// other in one sequence, without padding, and a token sees tokens of its own document alone. Which
/// of a pack's tiles of scores are computed is all that the rungs differ in.
///
/// Source: Krell et al. 2021, "Efficient sequence packing without cross-contamination", arXiv
/// 2107.02027; Dao 2023, FlashAttention-2, whose varlen functions take the same array of begins.

#include "kernels/ladders/attention/attention_bf16/attention_bf16.hpp"
#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Attention's forward pass over packed documents, in bf16 on tensor cores.
namespace ultra::kernels::attention_varlen {

/// @brief o = softmax(scale q k^T) v within each document.
struct Problem {
  /// @brief The pack as one sequence: batch is 1, seq_len the number of all tokens. All rungs need a
  /// head_dim that is a multiple of 8 and at most attention::kMostHeadDim.
  attention_bf16::Problem pack;
  /// @brief Documents of the pack.
  int documents;
  /// @brief [documents + 1]: where each begins; the last entry is the number of tokens (cu_seqlens).
  const int* begins;
  /// @brief [tokens]: the document of each.
  const int* document_of;
};

/// @brief Queries of a tile.
inline constexpr int kTile = 128;

/// @brief Rows of tiles that there can be, if each begins with a document or 128 tokens after a
/// tile of the same one: every document's last tile may be as good as empty.
constexpr unsigned most_tiles(int tokens, int documents) {
  return simt::ceil_div(static_cast<std::size_t>(tokens), kTile) + static_cast<unsigned>(documents);
}

/// @brief Rung 1: the pack as one sequence, with a mask.
template <simt::Executor executor>
void masked(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: the same tiles of queries, without the tiles of keys in which they see nothing.
template <simt::Executor executor>
void bounded(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: tiles of queries begin where documents do.
template <simt::Executor executor>
void tiles_of_documents(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::attention_varlen
