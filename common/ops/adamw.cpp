#include "common/ops/adamw.hpp"

#include "common/ops/backend/backend.hpp"
#include "common/ops/dtype_check.hpp"

namespace ultra::ops {

void adamw_into(std::span<const AdamWTensors> tensors, const AdamWStep& constants) {
  if (tensors.empty()) return;
  for (const AdamWTensors& of : tensors) {
    const Shape shape = of.value.shape();
    const DType dtype = of.value.dtype();
    expect_converts("grad of adamw", of.grad, shape, dtype);
    expect_converts("first moment of adamw", of.first_moment, shape, dtype);
    expect_converts("second moment of adamw", of.second_moment, shape, dtype);
    if (of.rounded.defined()) expect_converts("rounded weights of adamw", of.rounded, shape, dtype);
  }
  backend_of(tensors.front().value.device()).adamw(tensors, constants);
}

void adamw_into(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                const Tensor& second_moment, const AdamWStep& constants) {
  const AdamWTensors one{
      .value = value, .grad = grad, .first_moment = first_moment, .second_moment = second_moment};
  adamw_into({&one, 1}, constants);
}

}  // namespace ultra::ops
