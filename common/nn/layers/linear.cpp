#include "common/nn/layers/linear.hpp"

#include <utility>

#include "common/base/errors.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::nn {

using ops::as_matrix;
using ops::Transpose;
using ops::Write;

ParameterSpec weight_spec(const LinearSpec& spec) {
  return {.name = spec.name,
          .global_shape = {spec.out_features, spec.in_features},
          .shard = {},
          .initializer = {.standard_deviation = spec.standard_deviation}};
}

DenseProjections::DenseProjections(std::vector<ParameterSpec> weights, const Device& device,
                                   ParameterTypes types, std::uint64_t seed, Values values) {
  for (ParameterSpec& spec : weights) {
    owned_.push_back(std::make_unique<Parameter>(std::move(spec), device, types, seed, values));
    weights_.push_back(owned_.back().get());
  }
}

std::vector<Tensor> DenseProjections::forward(const Tensor& x, Saved& saved) {
  saved.put("input", x);
  const Tensor rows = as_matrix(x);
  std::vector<Tensor> outputs;
  for (const Parameter* weight : weights_) {
    const Tensor y = ops::matmul(rows, Transpose::kNo, weight->value(), Transpose::kYes);
    outputs.push_back(y.view(x.shape().with(-1, y.size(1))));
  }
  return outputs;
}

Tensor DenseProjections::backward(std::span<const Tensor> d_y, Saved& saved) {
  ensure(d_y.size() == weights_.size(), "one gradient per projection");
  const Tensor x = saved.take("input");
  const Tensor d_x = Tensor::empty(x.device(), x.shape(), x.dtype());
  // The last map first: gradients are made in the reverse of the forward order, all over the model.
  for (std::size_t i = weights_.size(); i-- > 0;) {
    const bool first = i + 1 == weights_.size();
    ops::matmul_into(as_matrix(d_x), as_matrix(d_y[i]), Transpose::kNo, weights_[i]->value(),
                     Transpose::kNo, first ? Write::kOverwrite : Write::kAccumulate);
    add_matmul_grad(*weights_[i], d_y[i], x);
  }
  return d_x;
}

DenseLinear::DenseLinear(ParameterSpec weight, const Device& device, ParameterTypes types,
                         std::uint64_t seed, Values values)
    : maps_({std::move(weight)}, device, types, seed, values) {}

Tensor DenseLinear::forward(const Tensor& x, Saved& saved) {
  return maps_.forward(x, saved).front();
}

Tensor DenseLinear::backward(const Tensor& d_y, Saved& saved) {
  return maps_.backward(std::span<const Tensor>(&d_y, 1), saved);
}

std::vector<Parameter*> DenseLinear::parameters() { return maps_.parameters(); }

}  // namespace ultra::nn
