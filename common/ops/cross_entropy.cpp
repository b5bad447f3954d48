#include "common/ops/cross_entropy.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/ops/backend/backend.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "common/ops/token_check.hpp"

namespace ultra::ops {
namespace {

void check_operands(const Tensor& logits, const Tensor& targets, double normalizer) {
  const Shape& shape = logits.shape();
  if (!logits.defined() || shape.rank() == 0) {
    throw ShapeError(
        fmt::format("cross_entropy: expected logits [.., vocab], found {}", shape.str()));
  }
  expect_tensor("targets of cross_entropy", targets, Shape(shape.dims().first(shape.rank() - 1)),
                DType::kI32);
  expect_targets(targets, logits.size(-1));
  if (!(normalizer > 0.0)) {
    throw ShapeError(
        fmt::format("cross_entropy: the normaliser must be positive, found {}", normalizer));
  }
}

}  // namespace

double cross_entropy_into_gradient(const Tensor& logits, const Tensor& targets, double normalizer,
                                   double z_loss) {
  check_operands(logits, targets, normalizer);
  return backend_of(logits.device()).cross_entropy(logits, targets, normalizer, z_loss);
}

void cross_entropy_into_gradient(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                                 double normalizer, Write write, double z_loss) {
  expect_tensor("loss of cross_entropy", loss, {digits_of_sums(logits.device())}, DType::kF64);
  check_operands(logits, targets, normalizer);
  backend_of(logits.device()).cross_entropy_into(loss, logits, targets, normalizer, write, z_loss);
}

}  // namespace ultra::ops
