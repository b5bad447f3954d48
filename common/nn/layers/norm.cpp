#include "common/nn/layers/norm.hpp"

#include "common/ops/elementwise.hpp"
#include "common/ops/rms_norm.hpp"

namespace ultra::nn {

RmsNorm::RmsNorm(const BuildContext& context, const NormSpec& spec)
    : weight_({.name = spec.name,
               .global_shape = {spec.width > 0                  ? spec.width
                                : spec.over == NormOver::kHeads ? context.config.head_dim()
                                                                : context.config.hidden_size},
               .shard = {},
               .initializer = {.constant = 1.0}},
              context.device, context.precision, context.seed, context.values),
      epsilon_(context.config.norm_epsilon) {}

// [region forward]
Tensor RmsNorm::forward(const Tensor& x, Saved& saved) {
  const auto [y, reciprocal_rms] = ops::rms_norm(x, weight_.value(), epsilon_);
  saved.put("input", x);
  saved.put("reciprocal_rms", reciprocal_rms);
  saved.remakeable(y, [this, x] { return ops::rms_norm(x, weight_.value(), epsilon_).y; });
  return y;
}
// [/region]

Tensor RmsNorm::backward(const Tensor& d_y, Saved& saved) {
  const Tensor x = saved.take("input");
  const Tensor reciprocal_rms = saved.take("reciprocal_rms");
  // One pass gives both gradients; only adding the weight's (few elements) can be put off.
  const Tensor d_weight = Tensor::empty(x.device(), weight_.shape(), accumulation_dtype(x.dtype()));
  const Tensor d_x = gradients(d_y, x, reciprocal_rms, d_weight);
  weight_.keep_for_grad(d_weight);
  weight_.add_grad([d_weight](const Tensor& grad, ops::Write write) {
    ops::write_or_add(grad, d_weight, write);
  });
  return d_x;
}

Tensor RmsNorm::gradients(const Tensor& d_y, const Tensor& x, const Tensor& reciprocal_rms,
                          const Tensor& d_weight) const {
  return ops::rms_norm_backward(d_y, x, weight_.value(), reciprocal_rms, d_weight,
                                ops::Write::kOverwrite);
}

std::vector<Parameter*> RmsNorm::parameters() { return {&weight_}; }

}  // namespace ultra::nn
