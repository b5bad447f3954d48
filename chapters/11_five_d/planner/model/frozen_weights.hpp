#pragma once
/// @file
/// Weights of a model that a training leaves as they are, as --freeze names them, in a plan.

#include <cstddef>
#include <string>
#include <vector>

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

}  // namespace ultra::planner
