#include "common/tensor/philox.hpp"
#include "common/tensor/tensor.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

class HalfTensorTest : public test::RandomTest {};

TEST_F(HalfTensorTest, TakesTwoBytesPerElement) {
  for (const DType dtype : test::kHalfDTypes) {
    const Tensor x = Tensor::zeros(device, {3, 5}, dtype, MemoryCategory::kActivations);
    EXPECT_EQ(x.nbytes(), 30U);
    EXPECT_EQ(device.memory().current()[MemoryCategory::kActivations], 30U);
    EXPECT_THAT(x.to_vector(), Each(0.0));
  }
}

TEST_F(HalfTensorTest, IsReadAsItsOwnTypeOnly) {
  const Tensor x = Tensor::zeros(device, {2}, DType::kBF16);
  EXPECT_EQ(x.span<BFloat16>().size(), 2U);
  EXPECT_THAT(message_of<ShapeError>([&] { return x.data<Float16>(); }),
              HasSubstr("of bf16 was accessed as f16"));
  EXPECT_THROW(static_cast<void>(x.data<float>()), ShapeError);
}

TEST_F(HalfTensorTest, HoldsGivenNumbersAndRoundsWhatItIsFilledWith) {
  const std::vector<BFloat16> numbers = {round_to<BFloat16>(1.5F), round_to<BFloat16>(-2.0F)};
  const Tensor given = Tensor::from<BFloat16>(device, {2}, numbers);
  EXPECT_THAT(given.to_vector(), ElementsAre(1.5, -2.0));
  given.slice(0, {1, 2}).fill(1.0 + 0x1p-7 + 0x1p-9);
  EXPECT_THAT(given.to_vector(), ElementsAre(1.5, 1.0 + 0x1p-7));
}

TEST_F(HalfTensorTest, ConvertsBetweenAllFloatingTypes) {
  const Shape shape{random.between(1, 5), random.between(1, 40)};
  const Tensor wide = random.tensor(device, shape, DType::kF64);
  for (const DType from : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    const Tensor x = wide.to(from);
    for (const DType to : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      const Tensor y = x.transpose(0, 1).to(to);
      EXPECT_EQ(y.dtype(), to);
      const bool exact = size_of(to) >= 4 && !(from == DType::kF64 && to == DType::kF32);
      const double bound = exact || from == to ? 0.0 : rounding_bound(to, 0.5, 5.0);
      EXPECT_TRUE(all_near(y, x.transpose(0, 1).to_vector(), bound))
          << to_string(from) << " to " << to_string(to);
    }
  }
}

TEST_F(HalfTensorTest, CastReturnsTheTensorItselfWhereItCan) {
  const Tensor x = random.tensor(device, {4}, DType::kBF16);
  EXPECT_TRUE(cast(x, DType::kBF16).shares_storage(x));
  const Tensor wide = cast(x, DType::kF32, MemoryCategory::kOptimizer);
  EXPECT_EQ(wide.category(), MemoryCategory::kOptimizer);
  EXPECT_EQ(wide.to_vector(), x.to_vector());
}

TEST_F(HalfTensorTest, CastIntoWritesAView) {
  const Tensor whole = Tensor::zeros(device, {3, 4}, DType::kBF16);
  const Tensor wide = random.tensor(device, {3, 2}, DType::kF32);
  cast_into(whole.slice(1, {1, 3}), wide);
  EXPECT_TRUE(test::all_equal(whole.slice(1, {1, 3}).contiguous(), wide.to(DType::kBF16)));
  EXPECT_THAT(whole.slice(1, {0, 1}).to_vector(), Each(0.0));
}

TEST_F(HalfTensorTest, WhatDoesNotFitIsRefused) {
  const Tensor x = Tensor::zeros(device, {3}, DType::kBF16);
  EXPECT_THAT(
      message_of<ShapeError>([&] { cast_into(x, Tensor::zeros(device, {2}, DType::kF32)); }),
      HasSubstr("cast_into"));
  EXPECT_THAT(
      message_of<ShapeError>([&] { cast_into(x, Tensor::zeros(device, {3}, DType::kI32)); }),
      HasSubstr("cannot convert i32 to bf16"));
  EXPECT_THROW(static_cast<void>(x.to(DType::kI32)), ShapeError);
  EXPECT_THAT(message_of<ShapeError>([&] { x.copy_from(Tensor::zeros(device, {3}, DType::kF32)); }),
              HasSubstr("expected [3] of bf16, found [3] of f32"));
}

TEST_F(HalfTensorTest, StartsWithTheRoundedNumbersOfF32) {
  const Shape shape{7, 9};
  const std::vector<Range> all = {{0, 7}, {0, 9}};
  const PhiloxStream stream(seed, "weight");
  const Tensor wide = Tensor::empty(device, shape, DType::kF32);
  fill_normal(wide, shape, all, stream, 0.02);
  for (const DType dtype : test::kHalfDTypes) {
    const Tensor x = Tensor::empty(device, shape, dtype);
    fill_normal(x, shape, all, stream, 0.02);
    EXPECT_TRUE(test::all_equal(x, wide.to(dtype)));
  }
}

}  // namespace
}  // namespace ultra
