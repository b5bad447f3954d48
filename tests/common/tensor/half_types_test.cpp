// Element types.
// Covers: common/tensor/dtype.hpp

#include "common/tensor/half_types.hpp"

#include <bit>

#include "common/tensor/dtype.hpp"
#include "common/tensor/philox.hpp"
#include "common/tensor/tensor.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

/// A format by its definition: `digits` bits of precision, exponents from `lowest` to `highest`.
struct Definition {
  int digits;
  int lowest;
  int highest;

  /// The nearest number, by rounding to a whole number of the spacing at x (ties to even).
  [[nodiscard]] double nearest(double x) const {
    if (x == 0.0 || !std::isfinite(x)) return x;
    const double spacing = std::ldexp(1.0, std::max(std::ilogb(x), lowest) - digits + 1);
    const double rounded = std::nearbyint(x / spacing) * spacing;
    const double largest = std::ldexp(2.0 - std::ldexp(1.0, 1 - digits), highest);
    return std::abs(rounded) > largest ? std::copysign(INFINITY, x) : rounded;
  }
};

template <class T>
constexpr Definition kDefinition =
    std::is_same_v<T, BFloat16> ? Definition{8, -126, 127} : Definition{11, -14, 15};

template <class T>
class HalfTypes : public test::RandomTest {
 protected:
  /// A number of any size, of either sign: all exponents are as likely.
  [[nodiscard]] double any_number() {
    return std::ldexp(random.normal(), static_cast<int>(random.between(0, 320)) - 160);
  }

  static T of_bits(std::uint32_t bits) { return T{static_cast<std::uint16_t>(bits)}; }
};

using Types = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(HalfTypes, Types);

TYPED_TEST(HalfTypes, EveryNumberIsItselfAfterBothConversions) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const TypeParam number = TestFixture::of_bits(bits);
    const auto wide = static_cast<float>(number);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(round_to<TypeParam>(wide)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(wide), static_cast<double>(number)) << bits;
    ASSERT_EQ(round_to<TypeParam>(wide).bits, bits);
    ASSERT_EQ(round_to<TypeParam>(static_cast<double>(number)).bits, bits);
  }
}

TYPED_TEST(HalfTypes, RoundsToTheNearestAndTiesToEven) {
  const Definition& definition = kDefinition<TypeParam>;
  for (int round = 0; round < 20000; ++round) {
    const double wide = this->any_number();
    const auto narrow = static_cast<float>(wide);
    ASSERT_EQ(static_cast<double>(round_to<TypeParam>(wide)), definition.nearest(wide)) << wide;
    ASSERT_EQ(static_cast<double>(round_to<TypeParam>(narrow)),
              definition.nearest(static_cast<double>(narrow)))
        << narrow;
  }
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {  // the middle between two neighbours
    const auto low = static_cast<double>(TestFixture::of_bits(bits));
    const auto high = static_cast<double>(TestFixture::of_bits(bits + 1));
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const double middle = low + (high - low) / 2.0;
    for (const double x : {middle, std::nextafter(middle, low), std::nextafter(middle, high)}) {
      ASSERT_EQ(static_cast<double>(round_to<TypeParam>(x)), definition.nearest(x)) << x;
    }
  }
}

TYPED_TEST(HalfTypes, KeepsInfinityNanAndTheSignOfZero) {
  const auto of = [](float x) { return static_cast<float>(round_to<TypeParam>(x)); };
  EXPECT_EQ(of(INFINITY), INFINITY);
  EXPECT_EQ(of(-INFINITY), -INFINITY);
  EXPECT_EQ(of(std::numeric_limits<float>::max()), INFINITY);
  EXPECT_TRUE(std::signbit(of(-0.0F)));
  EXPECT_FALSE(std::signbit(of(0.0F)));
  for (const std::uint32_t bits : {0x7F800001U, 0x7FC00000U, 0xFF812345U, 0xFFFFFFFFU}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(of(nan))) << bits;
    EXPECT_EQ(std::signbit(of(nan)), std::signbit(nan)) << bits;
    EXPECT_TRUE(std::isnan(static_cast<float>(round_to<TypeParam>(static_cast<double>(nan)))));
  }
}

TYPED_TEST(HalfTypes, AllNumbersAreConvertedLikeOne) {
  std::vector<TypeParam> all;
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) all.push_back(TestFixture::of_bits(bits));
  std::vector<float> wide(all.size());
  convert(std::span<const TypeParam>(all), std::span<float>(wide));
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]),
              std::bit_cast<std::uint32_t>(static_cast<float>(all[i])))
        << i;
  }
}

TEST(HalfTypeConversions, AnF64IsRoundedOnce) {
  // Just above the middle of 1 and its neighbour, by less than f32 sees: not to be rounded twice.
  EXPECT_EQ(static_cast<double>(round_to<BFloat16>(1.0 + 0x1p-8 + 0x1p-40)), 1.0 + 0x1p-7);
  EXPECT_EQ(static_cast<double>(round_to<BFloat16>(1.0 + 0x1p-8 - 0x1p-40)), 1.0);
  EXPECT_EQ(static_cast<double>(round_to<Float16>(-1.0 - 0x1p-11 - 0x1p-40)), -1.0 - 0x1p-10);
  EXPECT_EQ(static_cast<double>(round_to<Float16>(1e-300)), 0.0);
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

class HalfTensorTest : public test::RandomTest {};

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

}  // namespace
}  // namespace ultra
