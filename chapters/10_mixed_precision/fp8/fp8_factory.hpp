#pragma once
/// @file
/// Fp8Factory: the linear layers of transformer blocks, in fp8.
///
/// What stays in the type of the activations: token table, output projection, norms, attention's core
/// and routers, as in DeepSeek-V3; and unless scales are of tiles, the experts of a mixture, whose rows
/// stand on other ranks in every layout.

#include <memory>
#include <vector>

#include "chapters/10_mixed_precision/fp8/fp8_linear.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/train/plan.hpp"

namespace ultra::mixed_precision {

/// @brief Puts column and row linears of blocks, and experts, into fp8, and makes everything else as the inner factory
/// does.
class Fp8Factory : public nn::FactoryWrapper {
 public:
  /// @param inner  outlives this; around it there is no other factory that makes linears.
  Fp8Factory(nn::LayerFactory& inner, Fp8Scope scope)
      : FactoryWrapper(inner), scope_(std::move(scope)) {}

  [[nodiscard]] std::unique_ptr<nn::Projections> column_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override;
  [[nodiscard]] std::unique_ptr<nn::Layer> row_linear(const nn::BuildContext& context,
                                                      const nn::LinearSpec& spec) override;
  [[nodiscard]] std::unique_ptr<nn::Layer> feed_forward(const nn::BuildContext& context,
                                                        std::size_t layer) override;

 private:
  Fp8Scope scope_;
};

/// @brief Adds the group that keeps histories of largest magnitudes, where no other technique has.
void add_fp8_groups(train::Plan& plan, const Fp8Recipe& recipe);

/// @brief What the fp8 layers of this rank have to know.
[[nodiscard]] Fp8Scope fp8_scope(const Fp8Recipe& recipe, const train::Plan& plan);

}  // namespace ultra::mixed_precision
