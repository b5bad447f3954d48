#include "common/ops/swiglu.hpp"

#include "common/ops/backend/backend.hpp"

namespace ultra::ops {

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  expect_tensor("up of swiglu", up, gate.shape(), gate.dtype());
  const Tensor product = Tensor::empty(gate.device(), gate.shape(), gate.dtype());
  backend_of(gate.device()).swiglu(product, gate, up);
  return product;
}

SwigluGradients swiglu_backward(const Tensor& d_product, const Tensor& gate, const Tensor& up) {
  expect_tensor("up of swiglu_backward", up, gate.shape(), gate.dtype());
  expect_tensor("d_product of swiglu_backward", d_product, gate.shape(), gate.dtype());
  const SwigluGradients gradients{Tensor::empty(gate.device(), gate.shape(), gate.dtype()),
                                  Tensor::empty(gate.device(), gate.shape(), gate.dtype())};
  backend_of(gate.device()).swiglu_backward(gradients.d_gate, gradients.d_up, d_product, gate, up);
  return gradients;
}

}  // namespace ultra::ops
