#pragma once
/// @file
/// The chapter's written-out functions as parts of a trainer: the first use of injection.

#include <memory>
#include <string>

#include "common/nn/layer_factory.hpp"
#include "common/ops/adamw.hpp"

namespace ultra::memory {

/// @brief Wraps a factory so that the norms run rms_norm_backward_row.
class WrittenNormFactory : public nn::FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;

  [[nodiscard]] std::unique_ptr<nn::Layer> norm(const nn::BuildContext& context,
                                                const std::string& name) override;
};

/// @brief ops::adamw_into by way of adamw_step.
void written_adamw(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                   const Tensor& second_moment, const ops::AdamWStep& constants);

}  // namespace ultra::memory
