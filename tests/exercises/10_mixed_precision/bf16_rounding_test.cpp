// Contract of exercise 10.1: rounding to bf16, against a table of all its numbers.
#include "chapters/10_mixed_precision/bf16_rounding.hpp"

#include <bit>

#include "tests/support/nearest_number.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr const char* kNearest =
    "Hint: which of the two neighbours is nearer? Cutting the lower half off always takes the one "
    "nearer to zero.";
constexpr const char* kTies =
    "Hint: a number in the middle goes to the neighbour whose last bit is 0: that is not always "
    "the larger one.";
constexpr const char* kOverflow =
    "Hint: half a step beyond the largest number lies infinity; the carry of the fraction does the "
    "right thing with the exponent.";
constexpr const char* kNan =
    "Hint: a NaN must not be rounded: it can lose all bits of its fraction and become infinity, or "
    "overflow and become zero.";

class Bf16Rounding : public ultra::test::RandomTest {
 protected:
  /// The bits of the nearest number, from the table.
  [[nodiscard]] std::uint16_t expected(float x) const {
    const auto code = static_cast<std::uint16_t>(test::nearest_code(magnitudes, x));
    return static_cast<std::uint16_t>(code | (std::signbit(x) ? 0x8000U : 0U));
  }

  /// An f32 of any exponent.
  float any_finite() {
    while (true) {
      const auto bits = static_cast<std::uint32_t>(random.between(0, 0xFFFFFFFFU));
      if (std::isfinite(std::bit_cast<float>(bits))) return std::bit_cast<float>(bits);
    }
  }

  const std::vector<double> magnitudes = test::magnitudes_of(test::kBf16Table);
};

TEST_F(Bf16Rounding, EveryNumberOfTheFormatStaysWhatItIs) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float x = f32_from_bf16(static_cast<std::uint16_t>(bits));
    if (!std::isnan(x)) {
      ASSERT_EQ(bf16_from_f32(x), bits) << kNearest;
    }
  }
}

TEST_F(Bf16Rounding, TheNearestNumber) {
  for (int round = 0; round < 50000; ++round) {
    const float x = any_finite();
    ASSERT_EQ(bf16_from_f32(x), expected(x)) << kNearest << " x = " << x;
  }
}

TEST_F(Bf16Rounding, TheMiddleGoesToTheEvenNeighbour) {
  for (std::size_t low = 0; low + 1 < magnitudes.size(); ++low) {
    const auto middle = static_cast<float>((magnitudes[low] + magnitudes[low + 1]) / 2);
    ASSERT_EQ(bf16_from_f32(middle), low + low % 2) << kTies << " x = " << middle;
    ASSERT_EQ(bf16_from_f32(-middle), 0x8000U + low + low % 2) << kTies << " x = " << -middle;
  }
}

TEST_F(Bf16Rounding, WhatIsTooLargeBecomesInfinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float largest = f32_from_bf16(0x7F7F);
  const auto middle = std::bit_cast<float>(0x7F7F8000U);
  EXPECT_EQ(bf16_from_f32(std::nextafter(middle, 0.0F)), 0x7F7F) << kOverflow;
  EXPECT_EQ(f32_from_bf16(bf16_from_f32(middle)), kInfinity) << kOverflow;
  EXPECT_EQ(f32_from_bf16(bf16_from_f32(std::numeric_limits<float>::max())), kInfinity)
      << kOverflow;
  EXPECT_EQ(f32_from_bf16(bf16_from_f32(-std::numeric_limits<float>::max())), -kInfinity)
      << kOverflow;
  EXPECT_EQ(f32_from_bf16(bf16_from_f32(kInfinity)), kInfinity) << kOverflow;
  EXPECT_EQ(f32_from_bf16(bf16_from_f32(largest)), largest) << kOverflow;
}

TEST_F(Bf16Rounding, NanStaysNan) {
  std::vector<std::uint32_t> fractions = {1, 0x7FFF, 0x8000, 0xFFFF, 0x400000, 0x7FFFFF};
  for (int round = 0; round < 1000; ++round) {
    fractions.push_back(static_cast<std::uint32_t>(random.between(1, 0x7FFFFF)));
  }
  for (const std::uint32_t fraction : fractions) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const auto nan = std::bit_cast<float>(sign | 0x7F800000U | fraction);
      const std::uint16_t bits = bf16_from_f32(nan);
      ASSERT_TRUE(std::isnan(f32_from_bf16(bits))) << kNan << " fraction " << fraction;
      ASSERT_EQ(bits >> 15U, sign >> 31U) << "Hint: a NaN has a sign, too.";
      ASSERT_NE(bits & 0x40U, 0U)
          << "Hint: a NaN becomes quiet: the first bit of its fraction is set.";
    }
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
