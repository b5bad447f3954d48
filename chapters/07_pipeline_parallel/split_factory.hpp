#pragma once
/// @file
/// Linear layers whose backward pass is split_backward().

#include <memory>
#include <vector>

#include "common/nn/layer_factory.hpp"

namespace ultra::pipeline_parallel {

/// @brief Makes linear layers that run split_backward(): for ranks that hold whole matrices.
class SplitLinearFactory : public nn::FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;

  [[nodiscard]] std::unique_ptr<nn::Projections> column_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override;
  [[nodiscard]] std::unique_ptr<nn::Layer> row_linear(const nn::BuildContext& context,
                                                      const nn::LinearSpec& spec) override;
};

}  // namespace ultra::pipeline_parallel
