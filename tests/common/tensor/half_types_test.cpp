#include "common/tensor/half_types.hpp"

#include <bit>

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

TYPED_TEST(HalfTypes, ManyAreConvertedLikeOne) {
  for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 15U, 16U, 17U, 40U, 1000U}) {
    std::vector<float> wide(count);
    for (float& x : wide) x = static_cast<float>(this->any_number());
    if (count > 2) wide[1] = std::bit_cast<float>(0xFF812345U);  // NaN
    std::vector<TypeParam> narrow(count);
    convert(std::span<const float>(wide), std::span<TypeParam>(narrow));
    std::vector<float> back(count);
    convert(std::span<const TypeParam>(narrow), std::span<float>(back));
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(narrow[i].bits, round_to<TypeParam>(wide[i]).bits) << wide[i];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]),
                std::bit_cast<std::uint32_t>(static_cast<float>(narrow[i])));
    }
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

TEST(HalfTypeConversions, NeedRoomForAllNumbers) {
  const std::vector<float> three(3);
  std::vector<BFloat16> two(2);
  EXPECT_THROW(convert(std::span<const float>(three), std::span<BFloat16>(two)), InternalError);
}

}  // namespace
}  // namespace ultra
