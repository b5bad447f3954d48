#pragma once
/// @file
/// The stages of ZeRO: which of the model's states the ranks share out among themselves.
///
/// Source: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter
/// Models", arXiv 1910.02054, section 5. The paper calls the stages P_os, P_os+g and P_os+g+p.

#include <array>
#include <string_view>

namespace ultra::zero {

/// @brief What is sharded over the ranks of a data-parallel group. Each stage adds to the one
/// before; the value is that of `--zero`.
enum class ZeroStage {
  kNone,       ///< 0: nothing; every rank keeps all states, as chapter 03 does
  kOptimizer,  ///< 1: optimizer states, with the master weights; the paper's P_os
  kGradients,  ///< 2: gradients too; P_os+g
  kParameters  ///< 3: parameters too; P_os+g+p
};

/// @brief All stages, in the order of `--zero 0..3`.
inline constexpr std::array<ZeroStage, 4> kZeroStages = {
    ZeroStage::kNone, ZeroStage::kOptimizer, ZeroStage::kGradients, ZeroStage::kParameters};

/// @brief The stage's number: the value of `--zero`.
[[nodiscard]] constexpr int number_of(ZeroStage stage) { return static_cast<int>(stage); }

/// @brief True when a rank keeps the optimizer states of its shard only: stages 1, 2 and 3.
[[nodiscard]] constexpr bool shards_optimizer(ZeroStage stage) {
  return stage >= ZeroStage::kOptimizer;
}

/// @brief True when a rank keeps the gradients of its shard only: stages 2 and 3.
[[nodiscard]] constexpr bool shards_gradients(ZeroStage stage) {
  return stage >= ZeroStage::kGradients;
}

/// @brief True when a rank keeps the parameters of its shard only: stage 3.
[[nodiscard]] constexpr bool shards_parameters(ZeroStage stage) {
  return stage >= ZeroStage::kParameters;
}

/// @brief "none", "ZeRO-1", "ZeRO-2" or "ZeRO-3".
[[nodiscard]] constexpr std::string_view name_of(ZeroStage stage) {
  switch (stage) {
    case ZeroStage::kNone:
      return "none";
    case ZeroStage::kOptimizer:
      return "ZeRO-1";
    case ZeroStage::kGradients:
      return "ZeRO-2";
    case ZeroStage::kParameters:
      return "ZeRO-3";
  }
  return "?";
}

}  // namespace ultra::zero
