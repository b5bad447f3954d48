#include "chapters/05_tensor_sequence_parallel/column_parallel.hpp"

#include "common/ops/matmul.hpp"

namespace ultra::tensor_parallel {

using ops::as_matrix;
using ops::Transpose;
using ops::Write;

// [region forward]
std::vector<Tensor> ColumnParallelProjections::forward(const Tensor& x, nn::Saved& saved) {
  saved.put("input", x);
  const Tensor all = region_->enter(x).wait();  // [batch, seq, in_features]
  std::vector<Tensor> outputs;
  for (const auto& weight : weights_) {
    const Tensor y = ops::matmul(as_matrix(all), Transpose::kNo, weight->value(), Transpose::kYes);
    outputs.push_back(y.view(all.shape().with(-1, y.size(1))));
  }
  return outputs;
}
// [/region]

// [region backward]
Tensor ColumnParallelProjections::backward(std::span<const Tensor> d_y, nn::Saved& saved) {
  Pending entering = region_->enter(saved.take("input"));  // travels while the products run
  const Shape shape = d_y[0].shape().with(-1, weights_[0]->shape()[1]);
  const Tensor part = Tensor::empty(d_y[0].device(), shape, d_y[0].dtype());
  for (std::size_t i = weights_.size(); i-- > 0;) {
    const Write write = i + 1 == weights_.size() ? Write::kOverwrite : Write::kAccumulate;
    ops::matmul_into(as_matrix(part), as_matrix(d_y[i]), Transpose::kNo, weights_[i]->value(),
                     Transpose::kNo, write);
  }
  const Tensor x = entering.wait();
  Pending d_x = region_->enter_backward(part);  // travels while the weights' gradients are made
  for (std::size_t i = weights_.size(); i-- > 0;) {
    nn::add_matmul_grad(*weights_[i], d_y[i], x);
  }
  return d_x.wait();
}
// [/region]

}  // namespace ultra::tensor_parallel
