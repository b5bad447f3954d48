#pragma once
/// @file
/// Fp8Factory: the linear layers of transformer blocks, in fp8.
///
/// What stays in the type of the activations: token table, output projection, norms, attention's
/// core and routers, as in DeepSeek-V3; and unless scales are of tiles, the experts of a mixture,
/// whose rows are on other ranks in every layout.
///
/// Experts whose products are computed in fp8, with scales of tiles.
///
/// A rank's rows come from other ranks' micro-batches, so no tensor of a layout with experts on several
/// ranks is one of one rank's: a scale of the whole tensor would depend on the layout. A tile of 128
/// features belongs to one token, wherever its row is. So experts are in fp8 with scales of tiles only.
/// Source: DeepSeek-V3, arXiv 2412.19437, sec. 3.3.2.

#include <memory>
#include <span>
#include <vector>

#include "chapters/08_expert_parallel/moe/expert_linears.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_linear.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_recipe.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/train/plan.hpp"
#include "common/train/step.hpp"

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

/// @brief The experts' matrices of one input, in fp8. Saves what the layer inside does, the "input" as
/// codes, and "input_scales".
class Fp8ExpertLinears : public expert_parallel::ExpertLinears {
 public:
  /// @param maps   multiplies; all of its parameters are weights, those of one map after another.
  /// @param scope  of Scaling::kBlockwise.
  Fp8ExpertLinears(const nn::BuildContext& context,
                   std::unique_ptr<expert_parallel::ExpertLinears> maps, Fp8Scope scope);

  [[nodiscard]] std::vector<Tensor> forward(const Tensor& x, std::span<const std::size_t> rows,
                                            nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(std::span<const Tensor> d_y, std::span<const std::size_t> rows,
                                nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return tensors_.parameters(); }

 private:
  std::unique_ptr<expert_parallel::ExpertLinears> maps_;
  std::size_t weights_;
  Fp8Tensors tensors_;
};

/// @brief Puts the experts of a feed-forward part into fp8, if it has any and scales are of tiles.
[[nodiscard]] std::unique_ptr<nn::Layer> with_fp8_experts(const nn::BuildContext& context,
                                                          std::unique_ptr<nn::Layer> feed_forward,
                                                          const Fp8Scope& scope);

/// @brief Takes the maximum of what all ranks of a stage have noted, and moves the histories on.
/// Collective over the ranks of dp, cp and tp, after each step, with delayed scaling; else it does
/// nothing.
///
/// Every rank has noted the largest magnitudes of its own micro-batches and of its parts of tensors. The
/// next scales must be the same on all ranks that hold a layer, or a weight would be put on different
/// grids.
///
/// After a step that loss scaling skips as well: its tensors were there, and scales follow tensors,
/// not updates. An infinite maximum counts as the latest that was none. What a validation notes is
/// forgotten.
/// Source: Transformer Engine's reduction of amax values over the data and tensor parallel ranks; it
/// keeps a scale as long as its history holds an infinite maximum.
/// Cost: an all-reduce of one f32 per tensor of the stage's fp8 layers.
[[nodiscard]] std::unique_ptr<train::StepObserver> observe_fp8(const train::ModelScope& scope,
                                                               const Fp8Recipe& recipe);

}  // namespace ultra::mixed_precision
