#include "chapters/10_mixed_precision/formats/small_floats.hpp"

#include "tests/support/nearest_number.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A conversion with what it is compared with.
struct Conversion {
  test::SmallFormat table;
  std::function<std::uint32_t(float, Overflow)> from_f32;
  std::uint32_t sign;
};

class SmallFloats : public ultra::test::RandomTest {
 protected:
  void expect_nearest(const Conversion& c, const std::vector<double>& magnitudes, float x) {
    const std::size_t nearest = test::nearest_code(magnitudes, static_cast<double>(x));
    const std::uint32_t sign = std::signbit(x) ? c.sign : 0U;
    ASSERT_EQ(c.from_f32(x, Overflow::kInfinity), sign | nearest) << x;
    ASSERT_EQ(c.from_f32(x, Overflow::kSaturate), sign | std::min(nearest, magnitudes.size() - 1))
        << x;
  }

  const std::vector<Conversion> conversions = {
      {test::kFp16Table, [](float x, Overflow o) { return fp16_from_f32(x, o); }, 0x8000},
      {test::kE5m2Table, [](float x, Overflow o) { return e5m2_from_f32(x, o); }, 0x80}};
};

TEST_F(SmallFloats, WhereTheRoundingIsDecided) {
  for (const Conversion& c : conversions) {
    const std::vector<double> magnitudes = test::magnitudes_of(c.table);
    for (const float x : test::decisive_numbers(magnitudes)) expect_nearest(c, magnitudes, x);
  }
}

TEST_F(SmallFloats, NumbersOfAllSizes) {
  for (const Conversion& c : conversions) {
    const std::vector<double> magnitudes = test::magnitudes_of(c.table);
    for (int round = 0; round < 5000; ++round) {
      const double x = random.normal() * std::exp2(random.uniform(-30.0, 20.0));
      expect_nearest(c, magnitudes, static_cast<float>(x));
    }
    expect_nearest(c, magnitudes, std::numeric_limits<float>::denorm_min());
    expect_nearest(c, magnitudes, -0.0F);
  }
}

TEST_F(SmallFloats, InfinityAndNan) {
  EXPECT_EQ(fp16_from_f32(kInfinity), 0x7C00);
  EXPECT_EQ(fp16_from_f32(-kInfinity), 0xFC00);
  EXPECT_EQ(e5m2_from_f32(kInfinity), 0x7C);
  EXPECT_EQ(e5m2_from_f32(-kInfinity, Overflow::kSaturate), 0xFB);
  EXPECT_EQ(fp16_from_f32(kInfinity, Overflow::kSaturate), 0x7BFF);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Overflow overflow : {Overflow::kInfinity, Overflow::kSaturate}) {
    EXPECT_TRUE(std::isnan(f32_from_fp16(fp16_from_f32(nan, overflow))));
    EXPECT_EQ(e5m2_from_f32(-nan, overflow), 0xFE);
  }
}

TEST_F(SmallFloats, EveryFp16NumberStaysWhatItIs) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float x = f32_from_fp16(static_cast<std::uint16_t>(bits));
    if (!std::isnan(x)) {
      ASSERT_EQ(fp16_from_f32(x), bits);
    }
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
