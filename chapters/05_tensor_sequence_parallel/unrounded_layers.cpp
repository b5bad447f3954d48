#include "chapters/05_tensor_sequence_parallel/unrounded_layers.hpp"

#include "common/ops/matmul.hpp"

namespace ultra::tensor_parallel {
namespace {

using ops::as_matrix;
using ops::Transpose;

/// x op(weight), in rows like those of x: of x's type, or unrounded.
Tensor product(const Tensor& x, const nn::Parameter& weight, Transpose transpose, DType dtype) {
  const Tensor y = ops::matmul(as_matrix(x), Transpose::kNo, weight.value(), transpose, dtype);
  return y.view(x.shape().with(-1, y.size(1)));
}

DType sums_of(const Tensor& x) { return accumulation_dtype(x.dtype()); }

}  // namespace

std::vector<Tensor> UnroundedColumnParallel::forward(const Tensor& x, nn::Saved& saved) {
  saved.put("input", x);
  const Tensor all = region_->enter(x).wait();
  std::vector<Tensor> outputs;
  for (const nn::Parameter* weight : weights_) {
    outputs.push_back(product(all, *weight, Transpose::kYes, all.dtype()));
  }
  return outputs;
}

Tensor UnroundedColumnParallel::backward(std::span<const Tensor> d_y, nn::Saved& saved) {
  const Tensor own = saved.take("input");
  Pending entering = region_->enter(own);
  Tensor part;
  for (std::size_t i = weights_.size(); i-- > 0;) {
    if (part.defined()) {
      ops::matmul_into(as_matrix(part), as_matrix(d_y[i]), Transpose::kNo, weights_[i]->value(),
                       Transpose::kNo, ops::Write::kAccumulate);
    } else {
      part = product(d_y[i], *weights_[i], Transpose::kNo, sums_of(d_y[i]));
    }
  }
  const Tensor x = entering.wait();
  Pending d_x = region_->enter_backward(part);
  for (std::size_t i = weights_.size(); i-- > 0;) nn::add_matmul_grad(*weights_[i], d_y[i], x);
  return cast(d_x.wait(), own.dtype());
}

Tensor UnroundedRowParallel::forward(const Tensor& x, nn::Saved& saved) {
  saved.put("input", x);
  const Tensor part = product(x, *weight_, Transpose::kYes, sums_of(x));
  return cast(region_->leave(part).wait(), x.dtype());
}

Tensor UnroundedRowParallel::backward(const Tensor& d_y, nn::Saved& saved) {
  const Tensor x = saved.take("input");
  const Tensor d_all = region_->leave_backward(d_y).wait();
  const Tensor d_x = product(d_all, *weight_, Transpose::kNo, x.dtype());
  nn::add_matmul_grad(*weight_, d_all, x);
  return d_x.view(x.shape());
}

}  // namespace ultra::tensor_parallel
