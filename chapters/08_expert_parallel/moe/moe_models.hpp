#pragma once
/// @file
/// How many parameters mixtures of experts have, and how many a token uses.
///
/// Legend: h hidden_size, f width of an expert, E experts, k chosen ones, S shared ones.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/08_expert_parallel/moe_config.hpp"
#include "common/nn/named_models.hpp"

namespace ultra::expert_parallel {

/// @brief A model some of whose blocks have experts.
struct MoeModel {
  memory::TransformerShape
      shape;                     ///< attention and tables; its ffn_hidden_size is the width of the
                                 ///< blocks without experts
  MoeConfig moe = {};            ///< of the others
  std::size_t dense_blocks = 0;  ///< blocks without experts
  std::optional<std::size_t> attention_parameters = {};  ///< of a block; absent: those of grouped
                                                         ///< queries, as our blocks have them

  /// @brief Blocks with experts.
  [[nodiscard]] std::size_t moe_blocks() const { return shape.num_layers - dense_blocks; }
};

/// @brief Numbers of parameters.
struct MoeParameters {
  std::size_t total = 0;   ///< all
  std::size_t active = 0;  ///< those that compute for a token, with the tables
  std::size_t routed = 0;  ///< of `total`: in experts that tokens choose

  bool operator==(const MoeParameters&) const = default;
};

/// @brief Counts them, with the biases of the selection where experts are balanced by biases.
///
/// A block with experts has 3 h f (E + S) + E h where a dense one has 3 h f: of these a token uses
/// 3 h f (k + S) + E h.
[[nodiscard]] MoeParameters parameter_counts(const MoeModel& model);

/// @brief Weights of a block's latent attention, with the norms of its latents.
[[nodiscard]] std::size_t parameter_count(const nn::LatentAttention& latent, std::size_t heads,
                                          std::size_t hidden);

/// @brief Mixtral 8x7B and DeepSeek-V3.
///
/// Sources: config.json of mistralai/Mixtral-8x7B-v0.1 and deepseek-ai/DeepSeek-V3 on Hugging Face;
/// arXiv 2401.04088, table 1; arXiv 2412.19437, section 4.2. DeepSeek-V3 is counted without the
/// module that predicts a second token.
[[nodiscard]] const std::vector<MoeModel>& published_moe_models();

/// @brief A published mixture whose layers are ours.
struct TrainableMoeModel {
  nn::NamedModel dense;  ///< what it has besides its experts
  MoeConfig moe;         ///< the experts
};

/// @brief Mixtral 8x7B and Qwen3-30B-A3B. Source: config.json of mistralai/Mixtral-8x7B-v0.1 and
/// Qwen/Qwen3-30B-A3B on Hugging Face.
[[nodiscard]] const std::vector<TrainableMoeModel>& trainable_moe_models();

}  // namespace ultra::expert_parallel
