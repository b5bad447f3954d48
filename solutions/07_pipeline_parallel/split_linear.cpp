#include "chapters/07_pipeline_parallel/split_linear.hpp"

#include "common/ops/matmul.hpp"

namespace ultra::pipeline_parallel {

using ops::as_matrix;
using ops::Transpose;
using ops::Write;

// [region split_backward]
Tensor split_backward(std::span<const Tensor> d_y, const Tensor& x,
                      std::span<nn::Parameter* const> weights) {
  const Tensor d_x = Tensor::empty(x.device(), x.shape(), x.dtype());
  // The last map first: gradients are made in the reverse of the forward order, all over the model.
  for (std::size_t i = weights.size(); i-- > 0;) {
    const Write write = i + 1 == weights.size() ? Write::kOverwrite : Write::kAccumulate;
    ops::matmul_into(as_matrix(d_x), as_matrix(d_y[i]), Transpose::kNo, weights[i]->value(),
                     Transpose::kNo, write);
    weights[i]->add_grad([d_y = d_y[i], x](const Tensor& grad, Write into) {
      ops::matmul_into(grad, as_matrix(d_y), Transpose::kYes, as_matrix(x), Transpose::kNo, into);
    });
  }
  return d_x;
}
// [/region]

}  // namespace ultra::pipeline_parallel
