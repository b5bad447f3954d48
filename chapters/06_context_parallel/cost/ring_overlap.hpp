#pragma once
/// @file
/// The overlap condition of a ring: when the blocks of attention hide the keys and values on their way.
///
/// Legend: N ranks, b sequences of s tokens per rank, a query heads, g key/value heads of d elements of
/// e bytes; F FLOP per second that attention reaches, B bytes per second of the link. A step moves
/// 2 b s g d e bytes. Under a causal mask a rank with zig-zag chunks computes half of its s x s pairs in
/// each step: 2 b s^2 a d FLOP.
/// Source: Liu et al. 2023, "Ring Attention", arXiv 2310.01889, section 3.2: a block of at least F / B
/// tokens. Deviation: there all heads have keys of their own, nothing is masked, and e is 2 and cancels
/// against the 2 FLOP of a multiplication and an addition.

#include <cstddef>

namespace ultra::context_parallel {

/// @brief Seconds of one step on a link that carries one message after the other.
struct RingStepTimes {
  double forward = 0;   ///< to compute a forward step's blocks
  double backward = 0;  ///< to compute a backward step's
  double transfer = 0;  ///< for keys and values to reach the next rank; for their gradients as long
};

/// @brief What a ring of attention takes, forward and backward.
struct RingTimes {
  double compute = 0;        ///< N steps of each
  double communication = 0;  ///< of the link
  double exposed = 0;        ///< the rank waits for it

  /// @brief Until it has ended.
  [[nodiscard]] double total() const { return compute + exposed; }
};

/// @brief Seconds of a step's transfer over those of the forward step that shall hide it; up to 1 it can.
///
/// (2 b s g d e / B) / (2 b s^2 a d / F) = e g F / (s a B): the longer the sequence, the better; batch
/// and head size cancel out.
/// @param tokens            s, of a sequence on one rank, in zig-zag.
/// @param heads_per_kv      a / g.
/// @param flops             F.
/// @param bytes_per_second  B.
[[nodiscard]] double transfer_over_compute(double tokens, double heads_per_kv, double element_bytes,
                                           double flops, double bytes_per_second);

/// @brief Tokens per rank from which on the transfer is hidden: e g F / (a B).
[[nodiscard]] double tokens_that_hide(double heads_per_kv, double element_bytes, double flops,
                                      double bytes_per_second);

/// @brief Follows a rank through ring_forward() and ring_backward().
///
/// With c and C seconds of compute per step, forward and backward, and t per transfer:
/// - forward: the first N - 1 steps each hide a transfer: (N - 1) max(0, t - c) is exposed;
/// - backward: the first step hides keys and values, those between these and the gradients of the step
///   before, the last the gradients; their last hop home is hidden by nothing:
///   2 max(0, t - C) + (N - 2) max(0, 2 t - C) + t.
[[nodiscard]] RingTimes predict_ring(int ranks, const RingStepTimes& step);

}  // namespace ultra::context_parallel
