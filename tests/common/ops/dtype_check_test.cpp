#include "common/ops/dtype_check.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

Tensor of(DType dtype) { return Tensor::zeros(Device::cpu(), {2}, dtype); }

TEST(DTypeCheck, StoredOrSumsTakesTheTypeAndItsSums) {
  const auto check = [](DType found, DType expected) {
    expect_stored_or_sums("x", of(found), {2}, expected);
  };
  EXPECT_NO_THROW(check(DType::kBF16, DType::kBF16));
  EXPECT_NO_THROW(check(DType::kF32, DType::kBF16));
  EXPECT_NO_THROW(check(DType::kF64, DType::kF64));
  EXPECT_THROW(check(DType::kF64, DType::kBF16), ShapeError);
  EXPECT_THROW(check(DType::kBF16, DType::kF32), ShapeError);
  EXPECT_THAT(message_of<ShapeError>([&] { check(DType::kF16, DType::kBF16); }),
              HasSubstr("x: expected [2] of bf16, found [2] of f16"));
}

TEST(DTypeCheck, ConvertsTakesWhatMeetsInF32) {
  const auto check = [](DType found, DType expected) {
    expect_converts("x", of(found), {2}, expected);
  };
  for (const DType found : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const DType expected : {DType::kF32, DType::kBF16, DType::kF16}) {
      EXPECT_NO_THROW(check(found, expected));
    }
    EXPECT_THROW(check(found, DType::kF64), ShapeError);
    EXPECT_THROW(check(DType::kF64, found), ShapeError);
    EXPECT_THROW(check(DType::kI32, found), ShapeError);
  }
  EXPECT_NO_THROW(check(DType::kF64, DType::kF64));
}

TEST(DTypeCheck, ShapesAndUndefinedTensorsAreRefused) {
  EXPECT_THROW(expect_converts("x", of(DType::kF32), {3}, DType::kBF16), ShapeError);
  EXPECT_THROW(expect_converts("x", Tensor(), {2}, DType::kBF16), ShapeError);
  EXPECT_THROW(expect_stored_or_sums("x", Tensor(), {2}, DType::kBF16), ShapeError);
}

}  // namespace
}  // namespace ultra::ops
