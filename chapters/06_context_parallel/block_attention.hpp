#pragma once
/// @file
/// Attention of a rank's queries to somebody's keys, block by block: only those that the mask needs.

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "chapters/06_context_parallel/context_layout.hpp"
#include "chapters/06_context_parallel/needed_blocks.hpp"
#include "common/nn/layer.hpp"
#include "common/ops/attention.hpp"
#include "common/train/rank_counters.hpp"

namespace ultra::context_parallel {

/// @brief Keys and values, and where their tokens stand.
struct KeyValues {
  Tensor key;          ///< [batch, seq, kv_heads, head_dim], rotated
  Tensor value;        ///< [batch, seq, kv_heads, head_dim]
  TokenChunks chunks;  ///< seq tokens
};

/// @brief Attention over some of the keys, until all have been merged.
///
/// It is a sum of which parts are missing: f32 where the queries are bf16 or f16.
/// The log-sum-exp stands chunk after chunk, so that each chunk's is contiguous.
struct PartialAttention {
  Tensor output;       ///< [batch, seq, heads, head_dim]
  Tensor log_sum_exp;  ///< [batch, seq heads]: [heads, chunk] of one chunk after the other
};

/// What a rank counts: floating-point operations of attention. A query that sees a key costs
/// 4 head_dim of them per head forward (its score, its part of the output), and 10 head_dim backward.
inline constexpr std::string_view kAttentionFlops = "attention_flops";
/// What a rank counts: blocks that it computes, forward and backward.
inline constexpr std::string_view kAttentionBlocks = "attention_blocks";

/// @brief What hides keys from queries, in all sequences of a micro-batch; and who counts.
struct AttentionScope {
  std::size_t seq_len = 0;                  ///< real tokens of a sequence
  const nn::TokenPlaces* places = nullptr;  ///< of the micro-batch; null: whole sequences
  std::size_t window = 0;                   ///< tokens that a query sees, its own the last; 0: all
  train::RankCounters* counters = nullptr;  ///< of this rank; null: nobody counts

  /// @brief The mask of one sequence.
  [[nodiscard]] SequenceMask mask(std::size_t sequence) const;
};

/// @brief Pairs of a real query and a key that it sees, in one block: what its scores cost.
[[nodiscard]] std::size_t seen_pairs(Range queries, Range keys, const SequenceMask& mask);

/// @brief The steps of a ring in which some rank sees something, ascending, from 0 on: in step s each
/// rank has the keys of the rank s before it.
///
/// A window leaves steps empty, the same ones in every pass. What pads a sequence counts as a token, and
/// sequences as one document: borders of documents differ from batch to batch.
/// @param chunks  of each rank.
/// @param window  tokens that a query sees, its own the last; 0: all up to it, in all steps.
[[nodiscard]] std::vector<int> ring_steps(std::span<const TokenChunks> chunks, std::size_t window);

/// @brief Queries of a rank, and what becomes of them.
class BlockAttention {
 public:
  /// @param query   [batch, seq, heads, head_dim], rotated; contiguous.
  /// @param chunks  seq tokens.
  BlockAttention(Tensor query, TokenChunks chunks, AttentionScope scope);

  /// @brief The steps of a ring of ranks with these chunks that the mask needs: ring_steps().
  [[nodiscard]] std::vector<int> steps_of(std::span<const TokenChunks> chunks) const {
    return ring_steps(chunks, scope_.window);
  }

  /// @brief Attention over no keys: output 0, log-sum-exp -infinity.
  [[nodiscard]] PartialAttention empty_partial() const;

  /// @brief Merges attention over these keys into `partial`, in the blocks that the mask needs.
  /// @param keys  that `partial` has not seen yet.
  void attend(const PartialAttention& partial, const KeyValues& keys) const;

  /// @brief Adds the gradients that come from these keys.
  /// @param d_output  of the output over all keys.
  /// @param whole     attention over all keys.
  /// @param into      d_query of all queries, d_key and d_value of these keys; added to. Where the
  ///                  queries are bf16 or f16, each may be of that type or f32.
  void add_gradients(const Tensor& d_output, const PartialAttention& whole, const KeyValues& keys,
                     const nn::QkvGradients& into) const;

 private:
  struct Block;
  void for_each_block(const KeyValues& keys, const std::function<void(const Block&)>& fn) const;
  void count(const Block& block, double flops_per_pair) const;

  Tensor query_;
  TokenChunks chunks_;
  AttentionScope scope_;
};

}  // namespace ultra::context_parallel
