#pragma once
/// @file
/// WholeWeights: all weights of a model in flat arrays, as ZeRO-1 and ZeRO-2 keep them.

#include <cstddef>
#include <vector>

#include "chapters/04_zero/shards/parameter_group.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief Lets the values of a model's parameters be views of one flat array per group.
///
/// So an all-gather of the ranks' shards writes the weights to where they are read.
/// Memory: that of the weights, and the padding, as MemoryCategory::kParameters.
class WholeWeights {
 public:
  /// @brief Makes the initial weights.
  /// @param groups  of all parameters, which get their values here.
  explicit WholeWeights(const std::vector<ParameterGroup>& groups);

  /// @brief [padded] each: the arrays, in the order of the groups.
  [[nodiscard]] const std::vector<Tensor>& flats() const { return flats_; }

 private:
  std::vector<Tensor> flats_;
};

}  // namespace ultra::zero
