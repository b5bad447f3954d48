#pragma once
/// @file
/// MoeConfig: what takes the place of a block's feed-forward part.

#include <cstddef>
#include <cstdint>
#include <optional>

/// @brief Chapter 08: many feed-forward parts, of which each token uses a few, dealt out to ranks.
namespace ultra::expert_parallel {

/// @brief What makes affinities of a router's logits.
enum class RouterKind : std::uint8_t {
  kSoftmax,  ///< softmax over the experts
  kSigmoid,  ///< of each expert by itself
};

/// @brief What keeps the experts evenly loaded.
enum class Balance : std::uint8_t {
  kAux,   ///< a term of the loss, per sequence
  kBias,  ///< numbers added to the affinities for the selection, moved after each step
  kNone,  ///< nothing
};

/// @brief The tokens among which an expert's places are given out.
enum class CapacityGroup : std::uint8_t {
  kSequence,    ///< those of one sequence, on whichever ranks they are
  kMicroBatch,  ///< those of one micro-batch on one rank
};

/// @brief A mixture of experts: its dimensions, and the rules by which tokens choose.
///
/// Each expert is a SwiGLU of its own. Sources: Shazeer et al. 2017, arXiv 1701.06538; Jiang et al.
/// 2024, "Mixtral of experts", arXiv 2401.04088, section 2.1; DeepSeek-AI 2024, "DeepSeek-V3",
/// arXiv 2412.19437, section 2.1.2.
struct MoeConfig {
  std::size_t num_experts = 0;     ///< that tokens choose from; 0: a dense feed-forward part
  std::size_t top_k = 2;           ///< experts that each token chooses
  std::size_t expert_ffn = 0;      ///< width inside each expert
  std::size_t shared_experts = 0;  ///< that every token uses, as one of that many times the width
  RouterKind router = RouterKind::kSoftmax;    ///< makes affinities of logits
  std::optional<double> capacity_factor = {};  ///< places over choices; none: nothing is dropped
  CapacityGroup capacity_group = CapacityGroup::kSequence;  ///< among whom places are given out
  Balance balance = Balance::kAux;                          ///< keeps experts evenly loaded
  double aux_coefficient = 1e-2;                            ///< of the balancing term
  double z_coefficient = 0;                                 ///< of the router's z-loss
  double bias_rate = 1e-3;                                  ///< by which biases move in a step

  bool operator==(const MoeConfig&) const = default;
};

/// What a token's choice names instead of an expert when it goes nowhere: it was dropped, or the
/// token counts for nothing.
inline constexpr std::int32_t kDropped = -1;

}  // namespace ultra::expert_parallel
