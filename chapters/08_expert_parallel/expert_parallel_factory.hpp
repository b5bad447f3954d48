#pragma once
/// @file
/// ExpertParallelFactory: blocks whose feed-forward part is a mixture of experts.

#include <memory>
#include <utility>

#include "chapters/08_expert_parallel/moe_layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::expert_parallel {

/// @brief Makes mixtures of experts, and everything else as the inner factory does.
class ExpertParallelFactory : public nn::FactoryWrapper {
 public:
  /// @param inner  outlives this.
  /// @param scope  of this rank.
  ExpertParallelFactory(nn::LayerFactory& inner, MoeScope scope)
      : FactoryWrapper(inner), scope_(std::move(scope)) {}

  [[nodiscard]] std::unique_ptr<nn::Layer> feed_forward(const nn::BuildContext& context,
                                                        std::size_t layer) override {
    return std::make_unique<MoeLayer>(context, layer, scope_);
  }

 private:
  MoeScope scope_;
};

}  // namespace ultra::expert_parallel
