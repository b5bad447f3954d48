#pragma once
/// @file
/// What a block waits for of keys and values, tokens with experts, and activations on their way to the
/// host: what its passes do not hide.

#include "chapters/11_five_d/planner/time/block_time.hpp"

namespace ultra::planner {

/// @brief Seconds that a block waits in each pass of a micro-batch.
struct WaitSeconds {
  double forward = 0;   ///< in F
  double backward = 0;  ///< in B and W
};

/// @brief The exchanges of cp, by the layout's method.
///
/// - all-gather: keys and values of the whole sequence, both ways; backward their gradients are summed
///   up, too.
/// - ring: chapter 06's predict_ring(), behind the rank's attention.
/// - ulysses: queries, keys, values and outputs are exchanged for heads, both ways.
/// @param attention  of the block: forward and backward.
/// Source: Grattafiori et al. 2024, "Llama 3", arXiv 2407.21783, section 3.3.2 (all-gather); Liu et
/// al. 2023, arXiv 2310.01889 (ring); Jacobs et al. 2023, arXiv 2309.14509 (Ulysses).
[[nodiscard]] WaitSeconds context_waits(const Question& question, const Layout& layout,
                                        const WaitSeconds& attention);

/// @brief Dispatch and combination of tokens, both ways; where software overlaps them and there is
/// another micro-batch, what is longer than that one's passes: F beside B.
/// @param passes  the block's computation, forward and backward.
/// Source: DeepSeek-AI 2024, "DeepSeek-V3", arXiv 2412.19437, sections 2.1.2 (a token's experts are
/// on four nodes), 3.2.1 and 3.2.2 (DualPipe; a token goes to a node once).
[[nodiscard]] WaitSeconds expert_waits(const Question& question, const Layout& layout,
                                       const WaitSeconds& passes);

/// @brief What a block keeps, on its way to the host's memory beside the forward pass and back beside
/// the backward pass: what is longer than they are. Nothing where activations stay.
/// Source: Rajbhandari et al. 2021, "ZeRO-Infinity", arXiv 2104.07857, section 5.1.2.
[[nodiscard]] WaitSeconds host_waits(const Question& question, const Layout& layout, bool experts,
                                     const WaitSeconds& passes);

}  // namespace ultra::planner
