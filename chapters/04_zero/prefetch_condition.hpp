#pragma once
/// @file
/// When prefetching hides the gathers of ZeRO-3, and what is exposed where it does not.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "chapters/04_zero/prefetch.hpp"

namespace ultra::zero {

/// @brief Seconds that one unit takes.
struct UnitTimes {
  double forward = 0;   ///< its forward pass on the rank
  double backward = 0;  ///< its backward pass on the rank
  double gather = 0;    ///< the all-gather of its weights on the link
  double reduce = 0;    ///< the reduce-scatter of its gradients on the link
};

/// @brief Seconds of one micro-batch.
struct PassTimes {
  double compute = 0;  ///< forward and backward passes
  double exposed = 0;  ///< the rank waited for the link
};

/// @brief What a rank or its link is busy with.
enum class PassWork : std::uint8_t {
  kForward,   ///< the rank: a unit's forward pass
  kBackward,  ///< the rank: a unit's backward pass
  kGather,    ///< the link: the all-gather of a unit's weights
  kReduce,    ///< the link: the reduce-scatter of a unit's gradients
};

/// @brief "forward", "backward", "gather" or "reduce".
[[nodiscard]] constexpr const char* to_string(PassWork work) {
  constexpr const char* kNames[] = {"forward", "backward", "gather", "reduce"};
  return kNames[static_cast<std::size_t>(work)];
}

/// @brief Some work on a unit, with its time.
struct PassSpan {
  PassWork work = PassWork::kForward;  ///< what
  std::size_t unit = 0;                ///< whose
  double begin = 0;                    ///< seconds since the first pass could begin
  double end = 0;                      ///< seconds
};

/// @brief Follows a rank and its link through the passes of one micro-batch and the end of its
/// reductions.
///
/// The link takes one operation after the other, in the order in which the rank issues them; the rank
/// issues them as Prefetch and ShardReducer do.
/// @param units  in forward order; at least one.
[[nodiscard]] PassTimes predict_pass(std::span<const UnitTimes> units, std::size_t ahead,
                                     Reshard reshard);

/// @brief What predict_pass() follows, as a timeline: all work in the order in which it is issued.
[[nodiscard]] std::vector<PassSpan> pass_timeline(std::span<const UnitTimes> units,
                                                  std::size_t ahead, Reshard reshard);

/// @brief Seconds of a gather over those of the forward pass that is to hide it: it can, up to 1.
///
/// Of a parameter the all-gather brings e (N-1)/N bytes, and a token costs 2 FLOP:
/// e (N-1)/N / bandwidth over 2 tokens / flops. The size of the model cancels out.
/// @param tokens            of one micro-batch on each rank.
/// @param flops             FLOP/s that the rank achieves.
/// @param bytes_per_second  of the link.
/// Source: the Ultra-Scale Playbook, appendix A3, "ZeRO-3 (FSDP) communication analysis". Deviation:
/// it counts elements, so its ratio is this one for e = 1.
[[nodiscard]] double gather_over_forward(std::size_t tokens, int ranks, double element_bytes,
                                         double flops, double bytes_per_second);

}  // namespace ultra::zero
