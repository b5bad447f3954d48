#include "common/ops/adamw.hpp"

#include "common/ops/backend/backend.hpp"
#include "common/ops/dtype_check.hpp"

namespace ultra::ops {

void adamw_into(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                const Tensor& second_moment, const AdamWStep& constants) {
  expect_converts("grad of adamw", grad, value.shape(), value.dtype());
  expect_converts("first moment of adamw", first_moment, value.shape(), value.dtype());
  expect_converts("second moment of adamw", second_moment, value.shape(), value.dtype());
  backend_of(value.device()).adamw(value, grad, first_moment, second_moment, constants);
}

}  // namespace ultra::ops
