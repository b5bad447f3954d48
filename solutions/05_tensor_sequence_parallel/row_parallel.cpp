#include "chapters/05_tensor_sequence_parallel/row_parallel.hpp"

#include "common/ops/matmul.hpp"

namespace ultra::tensor_parallel {

using ops::as_matrix;
using ops::Transpose;
using ops::Write;

// [region forward]
Tensor RowParallelLinear::forward(const Tensor& x, nn::Saved& saved) {
  saved.put("input", x);
  const Tensor part = ops::matmul(as_matrix(x), Transpose::kNo, weight_->value(), Transpose::kYes);
  const Tensor y = region_->leave(part.view(x.shape().with(-1, part.size(1)))).wait();
  if (bias_) add_bias(y, bias_->value());  // behind the sum: once, not once per rank
  return y;
}
// [/region]

// [region backward]
Tensor RowParallelLinear::backward(const Tensor& d_y, nn::Saved& saved) {
  const Tensor x = saved.take("input");
  const Tensor d_all = region_->leave_backward(d_y).wait();  // [batch, seq, out_features]
  const Tensor d_x =
      ops::matmul(as_matrix(d_all), Transpose::kNo, weight_->value(), Transpose::kNo);
  if (bias_) {
    bias_->add_grad([d_y](const Tensor& grad, Write write) { sum_rows_into(grad, d_y, write); });
  }
  nn::add_matmul_grad(*weight_, d_all, x);
  return d_x.view(x.shape());
}
// [/region]

}  // namespace ultra::tensor_parallel
