#include "chapters/05_tensor_sequence_parallel/unrounded_layers.hpp"

#include "common/ops/matmul.hpp"

namespace ultra::tensor_parallel {
namespace {

using ops::as_matrix;
using ops::Transpose;

/// x op(weight), in rows like those of x, unrounded.
Tensor product(const Tensor& x, const nn::Parameter& weight, Transpose transpose) {
  const Tensor y = ops::matmul(as_matrix(x), Transpose::kNo, weight.value(), transpose,
                               accumulation_dtype(x.dtype()));
  return y.view(x.shape().with(-1, y.size(1)));
}

}  // namespace

Tensor UnroundedColumnParallel::backward(std::span<const Tensor> d_y, nn::Saved& saved) {
  const Tensor own = saved.take("input");
  Pending entering = region_->enter(own);
  Tensor part;
  for (std::size_t i = weights_.size(); i-- > 0;) {
    if (part.defined()) {
      ops::matmul_into(as_matrix(part), as_matrix(d_y[i]), Transpose::kNo, weights_[i]->value(),
                       Transpose::kNo, ops::Write::kAccumulate);
    } else {
      part = product(d_y[i], *weights_[i], Transpose::kNo);
    }
  }
  const Tensor x = entering.wait();
  Pending d_x = region_->enter_backward(part);
  for (std::size_t i = weights_.size(); i-- > 0;) nn::add_matmul_grad(*weights_[i], d_y[i], x);
  return cast(d_x.wait(), own.dtype());
}

Tensor UnroundedRowParallel::forward(const Tensor& x, nn::Saved& saved) {
  saved.put("input", x);
  const Tensor part = product(x, *weight_, Transpose::kYes);
  return cast(region_->leave(part).wait(), x.dtype());
}

}  // namespace ultra::tensor_parallel
