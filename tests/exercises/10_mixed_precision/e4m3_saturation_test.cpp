// Contract of exercise 10.2: rounding to fp8 e4m3, against a table of all its numbers.
#include "chapters/10_mixed_precision/e4m3_saturation.hpp"

#include <bit>

#include "tests/support/nearest_number.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr const char* kNearest =
    "Hint: the nearest number, and the even code for what lies in the middle.";
constexpr const char* kSubnormal =
    "Hint: below 2^-6 the exponent no longer falls: numbers are 2^-9 apart down to zero.";
constexpr const char* kSaturation =
    "Hint: e4m3 has numbers at the largest exponent, up to 448, and no infinity: what is larger "
    "saturates.";
constexpr const char* kNan = "Hint: NaN is the code of all ones, and no number may become it.";
constexpr const char* kSign = "Hint: the sign is kept, also that of zero.";

constexpr double kSmallestNormal = 0x1p-6;

class E4m3Saturation : public ultra::test::RandomTest {
 protected:
  [[nodiscard]] std::uint8_t expected(float x) const {
    const std::size_t code = std::min(test::nearest_code(magnitudes, x), magnitudes.size() - 1);
    return static_cast<std::uint8_t>(code | (std::signbit(x) ? 0x80U : 0U));
  }

  void expect_nearest(float x) const {
    const auto magnitude = static_cast<double>(std::abs(x));
    const char* hint = kNearest;
    if (magnitude < kSmallestNormal) hint = magnitude == 0 ? kSign : kSubnormal;
    if (magnitude > magnitudes[magnitudes.size() - 2]) hint = kSaturation;
    ASSERT_EQ(e4m3_from_f32(x), expected(x)) << hint << " x = " << x;
  }

  const std::vector<double> magnitudes = test::magnitudes_of(test::kE4m3Table);
};

TEST_F(E4m3Saturation, WhereTheRoundingIsDecided) {
  ASSERT_EQ(magnitudes.back(), 448.0);
  for (const float x : test::decisive_numbers(magnitudes)) expect_nearest(x);
  for (const float x : {464.0F, 480.0F, std::numeric_limits<float>::infinity()}) {
    expect_nearest(x);
    expect_nearest(-x);
  }
}

TEST_F(E4m3Saturation, NumbersOfAllSizes) {
  for (int round = 0; round < 20000; ++round) {
    const double x = random.normal() * std::exp2(random.uniform(-14.0, 10.0));
    expect_nearest(static_cast<float>(x));
  }
  for (const float tiny : {1e-45F, 1e-38F, 1e-10F, 0x1p-10F, 0x1.8p-10F}) {
    expect_nearest(tiny);
    expect_nearest(-tiny);
  }
}

TEST_F(E4m3Saturation, NanStaysNan) {
  constexpr float kQuietNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(e4m3_from_f32(kQuietNan) & 0x7F, 0x7F) << kNan;
  EXPECT_EQ(e4m3_from_f32(std::copysign(kQuietNan, -1.0F)), 0xFF) << kNan;
  EXPECT_EQ(e4m3_from_f32(std::bit_cast<float>(0x7F800001U)), 0x7F) << kNan;
}

}  // namespace
}  // namespace ultra::mixed_precision
