#include "common/tensor/dtype.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

TEST(DType, SizesAreThoseOfTheScalars) {
  EXPECT_EQ(size_of(DType::kF32), sizeof(float));
  EXPECT_EQ(size_of(DType::kF64), sizeof(double));
  EXPECT_EQ(size_of(DType::kI32), sizeof(std::int32_t));
  EXPECT_EQ(size_of(DType::kBF16), sizeof(BFloat16));
  EXPECT_EQ(size_of(DType::kF16), sizeof(Float16));
  EXPECT_EQ(size_of(DType::kBF16), 2U);
}

TEST(DType, NamesAndTypesBelongTogether) {
  EXPECT_EQ(to_string(DType::kF32), "f32");
  EXPECT_EQ(to_string(DType::kF64), "f64");
  EXPECT_EQ(to_string(DType::kI32), "i32");
  EXPECT_EQ(dtype_of<float>(), DType::kF32);
  EXPECT_EQ(dtype_of<double>(), DType::kF64);
  EXPECT_EQ(dtype_of<std::int32_t>(), DType::kI32);
  EXPECT_EQ(to_string(DType::kBF16), "bf16");
  EXPECT_EQ(to_string(DType::kF16), "f16");
  EXPECT_EQ(dtype_of<BFloat16>(), DType::kBF16);
  EXPECT_EQ(dtype_of<Float16>(), DType::kF16);
}

TEST(DType, ParsesTheFloatingTypes) {
  EXPECT_EQ(parse_float_dtype("f32"), DType::kF32);
  EXPECT_EQ(parse_float_dtype("f64"), DType::kF64);
}

TEST(DType, RefusesOtherTextAndNamesTheChoices) {
  for (const std::string text : {"i32", "float", "F32", ""}) {
    const std::string message = message_of<ConfigError>([&] { return parse_float_dtype(text); });
    EXPECT_THAT(message, HasSubstr("'" + text + "'"));
    EXPECT_THAT(message, HasSubstr("f32 or f64"));
  }
}

TEST(DType, DispatchCallsWithTheScalarType) {
  const auto size = []<class T>() { return sizeof(T); };
  EXPECT_EQ(dispatch_float(DType::kF32, size), 4U);
  EXPECT_EQ(dispatch_float(DType::kF64, size), 8U);
  const std::string message =
      message_of<ShapeError>([&] { return dispatch_float(DType::kI32, size); });
  EXPECT_THAT(message, HasSubstr("found i32"));
  EXPECT_THAT(message_of<ShapeError>([&] { return dispatch_float(DType::kBF16, size); }),
              HasSubstr("expected a tensor of f32 or f64, found bf16"));
}

TEST(DType, StoredNumbersAreDispatchedToo) {
  const auto size = []<class T>() { return sizeof(T); };
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    EXPECT_EQ(dispatch_stored(dtype, size), size_of(dtype));
  }
  EXPECT_THAT(message_of<ShapeError>([&] { return dispatch_stored(DType::kI32, size); }),
              HasSubstr("expected a tensor of f32, f64, bf16 or f16, found i32"));
}

TEST(DType, SumsOfTwoByteNumbersAreF32) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    EXPECT_TRUE(is_half(dtype));
    EXPECT_EQ(accumulation_dtype(dtype), DType::kF32);
  }
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32}) {
    EXPECT_FALSE(is_half(dtype));
    EXPECT_EQ(accumulation_dtype(dtype), dtype);
  }
}

}  // namespace
}  // namespace ultra
