#include "chapters/11_five_d/sums/parted_norm.hpp"

#include <string>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/rms_norm.hpp"
#include "common/ops/sums/sum_tree.hpp"

namespace ultra::five_d {

Tensor PartedNorm::gradients(const Tensor& d_y, const Tensor& x, const Tensor& reciprocal_rms,
                             const Tensor& d_weight) const {
  const std::size_t sequences = x.size(0);
  const Tensor parts = Tensor::empty(x.device(), {sequences, d_weight.numel()}, d_weight.dtype());
  const auto part = [&](std::size_t i) {
    return parts.slice(0, {i, i + 1}).view(d_weight.shape());
  };
  Tensor d_x = Tensor::empty(x.device(), x.shape(), x.dtype());
  for (std::size_t i = 0; i < sequences; ++i) {
    const Range own{i, i + 1};
    d_x.slice(0, own).copy_from(
        ops::rms_norm_backward(d_y.slice(0, own), x.slice(0, own), weight().value(),
                               reciprocal_rms.slice(0, own), part(i), ops::Write::kOverwrite));
  }
  ranks_.labeled("gradient of a norm").all_reduce(parts).wait();
  const auto join = [](const Tensor& left, const Tensor& right) {
    ops::add_into(left, right);
    return left;
  };
  ops::NodeCounter<Tensor, decltype(join)> nodes(join);
  for (std::size_t i = 0; i < sequences; ++i) nodes.add(part(i));
  d_weight.copy_from(nodes.take());
  return d_x;
}

std::unique_ptr<nn::Layer> PartedNormFactory::norm(const nn::BuildContext& context,
                                                   const nn::NormSpec& spec) {
  if (spec.over != nn::NormOver::kTokens) return inner().norm(context, spec);
  auto norm = std::make_unique<PartedNorm>(context, spec, tp_);
  for (nn::Parameter* weight : norm->parameters()) {
    weight->replicate({.group = std::string(tensor_parallel::kTensorGroup),
                       .size = tp_.size(),
                       .index = tp_.rank(),
                       .gradients = nn::CopyGradients::kEqual});
  }
  return norm;
}

}  // namespace ultra::five_d
