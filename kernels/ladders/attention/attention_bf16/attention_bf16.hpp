#pragma once
/// @file
/// The ladder of attention's forward pass on tensor cores: as the ladder attention, with queries,
/// keys, values and o in bf16; scores, the softmax and all sums stay in fp32, weights are rounded
/// to bf16 before they are multiplied.
///
/// Legend of rungs 1 to 3: a block has four warps and 128 queries of a head, a warp two tiles of 16
/// of them (m counts these), so that it multiplies each key and value that it loads twice; it goes
/// through the keys in tiles of 64, or of 32 where rows are longer than 64. Lane l has group g = l
/// / 4 and t = l % 4, as kernels/simt/matrix_tiles.cuh has them.
/// Source: Dao 2023, arXiv 2307.08691, sections 3.1 and 3.3.

#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Attention's forward pass in bf16 on tensor cores.
namespace ultra::kernels::attention_bf16 {

/// @brief o = softmax(scale q k^T) v; shapes as in attention::Problem. All rungs need a head_dim
/// that is a multiple of 8 and at most attention::kMostHeadDim.
template <typename T>
struct ProblemOf {
  /// @brief The extents, and whether it is causal.
  attention::Shape shape;
  /// @brief Queries [batch, kv_heads * group, seq_len, head_dim].
  const T* q;
  /// @brief Keys [batch, kv_heads, seq_len, head_dim].
  const T* k;
  /// @brief Values [batch, kv_heads, seq_len, head_dim].
  const T* v;
  /// @brief As q, written.
  T* o;
  /// @brief [batch, kv_heads * group, seq_len], written: log(sum over j of exp(score_ij)).
  float* lse;
  /// @brief Null, or what rungs 3 to 5 write in place of o: the same in fp32, for sums of parts.
  float* wide_o = nullptr;
};

/// @brief Of bf16, which all rungs take. It has a name of its own: a GPU's compiler has another bf16 than the
/// host's, and what one of them calls the other one has compiled.
struct Problem : ProblemOf<simt::bf16> {};

/// @brief Rung 1: flash attention with mma.sync; weights stay in registers.
template <simt::Executor executor>
void tensor_cores(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: rows of tiles are swizzled, and ldmatrix loads four matrices at once.
template <simt::Executor executor>
void swizzled(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: the next keys and values are copied while the current ones are multiplied.
template <simt::Executor executor>
void pipelined(const Problem& problem, const simt::Queue& queue);

/// @brief The same of half.
template <simt::Executor executor>
void pipelined_f16(const ProblemOf<simt::half>& problem, const simt::Queue& queue);

/// @brief Rung 4: warpgroups multiply what TMA brings, with wgmma; for Hopper alone (hopper/).
/// Source: Shah et al. 2024, FlashAttention-3, arXiv 2407.08608.
template <simt::Executor executor>
void warpgroups(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 5: the same where one warpgroup's softmax has its turn while another one multiplies;
/// for Hopper alone (hopper/). Source: the same, section 3.1.
template <simt::Executor executor>
void ping_pong(const Problem& problem, const simt::Queue& queue);

/// @brief The same of half.
template <simt::Executor executor>
void ping_pong_f16(const ProblemOf<simt::half>& problem, const simt::Queue& queue);

/// @brief Rung 6: blocks that stay go from tile to tile, and o leaves through TMA while the next
/// tile arrives; for Hopper alone (hopper/).
template <simt::Executor executor>
void persistent(const Problem& problem, const simt::Queue& queue);

/// @brief The same of half.
template <simt::Executor executor>
void persistent_f16(const ProblemOf<simt::half>& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::attention_bf16
