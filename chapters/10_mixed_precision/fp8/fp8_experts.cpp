#include "chapters/10_mixed_precision/fp8/fp8_experts.hpp"

#include <utility>

#include "chapters/08_expert_parallel/moe_layer.hpp"
#include "common/base/errors.hpp"

namespace ultra::mixed_precision {

using expert_parallel::ExpertLinears;

Fp8ExpertLinears::Fp8ExpertLinears(const nn::BuildContext& context,
                                   std::unique_ptr<ExpertLinears> maps, Fp8Scope scope)
    : maps_(std::move(maps)),
      weights_(maps_->parameters().size()),
      tensors_(context, maps_->parameters(), scope) {
  ensure(scope.recipe.scaling == Scaling::kBlockwise, "experts in fp8 have scales of tiles");
}

std::vector<Tensor> Fp8ExpertLinears::forward(const Tensor& x, std::span<const std::size_t> rows,
                                              nn::Saved& saved) {
  const OnGrid input = tensors_.input(x, saved.pass());
  const Fp8Tensors::WeightsOnGrid weights(tensors_, saved.pass());
  std::vector<Tensor> outputs = maps_->forward(input.numbers, rows, saved);
  tensors_.pack_input(input, saved);
  return outputs;
}

Tensor Fp8ExpertLinears::backward(std::span<const Tensor> d_y, std::span<const std::size_t> rows,
                                  nn::Saved& saved) {
  tensors_.unpack_input(saved);
  const Fp8Tensors::WeightsOnGrid weights(tensors_, saved.pass());
  const std::size_t experts = weights_ / d_y.size();  // their weights have one shape
  std::vector<Tensor> gradients;
  for (std::size_t map = 0; map < d_y.size(); ++map) {
    gradients.push_back(tensors_.gradient(map * experts, d_y[map], saved.pass()));
  }
  return maps_->backward(gradients, rows, saved);
}

std::unique_ptr<nn::Layer> with_fp8_experts(const nn::BuildContext& context,
                                            std::unique_ptr<nn::Layer> feed_forward,
                                            const Fp8Scope& scope) {
  auto* mixture = dynamic_cast<expert_parallel::MoeLayer*>(feed_forward.get());
  if (mixture == nullptr || scope.recipe.scaling != Scaling::kBlockwise) return feed_forward;
  mixture->experts().wrap([&](std::unique_ptr<ExpertLinears> maps) {
    return std::make_unique<Fp8ExpertLinears>(context, std::move(maps), scope);
  });
  return feed_forward;
}

}  // namespace ultra::mixed_precision
