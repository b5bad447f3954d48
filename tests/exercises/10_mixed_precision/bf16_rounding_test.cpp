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

  void expect_nearest(float x) const {
    const bool is_middle = (std::bit_cast<std::uint32_t>(x) & 0xFFFFU) == 0x8000U;
    const bool is_large = static_cast<double>(std::abs(x)) > magnitudes.back();
    ASSERT_EQ(bf16_from_f32(x), expected(x)) << (is_large    ? kOverflow
                                                 : is_middle ? kTies
                                                             : kNearest)
                                             << " x = " << x;
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

TEST_F(Bf16Rounding, TheNearestNumberWhereTheRoundingIsDecided) {
  for (const float x : test::decisive_numbers(magnitudes)) expect_nearest(x);
  for (const float x :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()}) {
    expect_nearest(x);
    expect_nearest(-x);
  }
}

TEST_F(Bf16Rounding, TheNearestNumber) {
  for (int round = 0; round < 50000; ++round) expect_nearest(any_finite());
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
