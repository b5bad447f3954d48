#pragma once
/// @file
/// ModelShape: the model that a plan is made for, by name or by its dimensions.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/08_expert_parallel/moe/moe_models.hpp"

/// @brief Chapter 11: which layout of a model on a cluster fits, how fast it is, and why.
namespace ultra::planner {

struct ModelShape;

/// @brief Of one block's weights, those that are frozen.
struct FrozenBlock {
  std::size_t split = 0;  ///< weights of matrices that tp splits evenly
  std::size_t key_weights =
      0;                  ///< of keys' and values': of them a rank of tp has one head at least
  std::size_t norms = 0;  ///< weights of norms: every rank has all
};

/// @brief Weights without gradients and states.
struct FrozenWeights {
  std::vector<std::string> patterns = {};  ///< parts of their names; none: all weights are trained
  std::vector<FrozenBlock> blocks = {};    ///< of all, in forward order; or none
  bool input_table = false;                ///< the whole table
  bool output_table = false;               ///< likewise; the same table where they are tied
  bool final_norm = false;                 ///< behind the last block
};

/// @brief Those of a model that have one of the patterns in their names, which are our own model's.
/// @throws ConfigError for a model whose names this program does not have; and as
/// train::expect_to_train().
[[nodiscard]] FrozenWeights frozen_weights(const ModelShape& model,
                                           const std::vector<std::string>& patterns);

/// @brief The dimensions of a model, dense or with experts.
struct ModelShape {
  expert_parallel::MoeModel layers;  ///< blocks and tables; without experts all blocks are dense
  std::size_t score_width = 0;       ///< elements of all heads' queries and of all heads' values,
                                     ///< on average; 0: hidden_size, as in grouped-query attention

  std::size_t most_nodes = 0;  ///< that a token's experts are on; 0: any number
  FrozenWeights frozen = {};   ///< that are not trained

  /// @brief Attention and tables, and the dense feed-forward parts.
  [[nodiscard]] const memory::TransformerShape& shape() const { return layers.shape; }
  /// @brief Whether some blocks have experts.
  [[nodiscard]] bool has_experts() const { return layers.moe.num_experts > 0; }
  /// @brief Width of attention's two products, over all heads.
  [[nodiscard]] double attention_width() const {
    return static_cast<double>(score_width == 0 ? shape().hidden_size : score_width);
  }
};

/// @brief A model without experts.
[[nodiscard]] ModelShape dense_model(memory::TransformerShape shape);

/// @brief All models that have names, by families, smallest first.
///
/// Sources: chapters 01 and 08; Narayanan et al. 2021, arXiv 2104.04473, table 1 (megatron-*);
/// Korthikanti et al. 2022, arXiv 2205.05198, table 3 (megatron-22b); Touvron et al. 2023, arXiv
/// 2302.13971 and 2307.09288 (llama1-*, llama2-*); Hugging Face's nanotron,
/// scripts/scaling_benchmarks.py (nanotron-*).
[[nodiscard]] const std::vector<ModelShape>& named_models();

/// @brief The model of that name; case does not matter. Null when there is none.
[[nodiscard]] const ModelShape* find_model(std::string_view name);

/// @brief P: all parameters, each once.
[[nodiscard]] double parameters_of(const ModelShape& model);

/// @brief Parameters that multiply a token: with the output table, without the input table, norms,
/// positions and the experts that a token does not choose.
[[nodiscard]] double multiplied_parameters(const ModelShape& model);

/// @brief FLOP of a forward and backward pass per token, nothing computed again: 6 for each
/// parameter that multiplies it, 4 for a frozen one, and 12 s for each element of attention's width in each block, as
/// though attention were not causal.
/// @param seq_len  s.
/// Source: Narayanan et al. 2021, arXiv 2104.04473, appendix; the Ultra-Scale Playbook, appendix.
[[nodiscard]] double model_flop_per_token(const ModelShape& model, std::size_t seq_len);

}  // namespace ultra::planner
