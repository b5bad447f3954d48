// Formats and conversions against tables of all their numbers; the core's fast conversions are these.
//
// Covers: chapters/10_mixed_precision/formats/number_format.hpp

#include <bit>

#include "chapters/10_mixed_precision/bf16_rounding.hpp"
#include "chapters/10_mixed_precision/formats/number_format.hpp"
#include "chapters/10_mixed_precision/mixed_precision.hpp"
#include "common/tensor/half_types.hpp"
#include "tests/support/nearest_number.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

/// What the specifications print.
struct Published {
  NumberFormat format;
  int bias;
  double largest, smallest_normal, smallest_subnormal, epsilon;
};

const Published kPublished[] = {
    {kFp32, 127, 3.4028234663852886e38, 0x1p-126, 0x1p-149, 0x1p-23},
    {kBf16, 127, 3.3895313892515355e38, 0x1p-126, 0x1p-133, 0x1p-7},
    {kFp16, 15, 65504, 0x1p-14, 0x1p-24, 0x1p-10},
    {kFp8E4m3, 7, 448, 0x1p-6, 0x1p-9, 0.125},
    {kFp8E5m2, 15, 57344, 0x1p-14, 0x1p-16, 0.25},
    {kFp6E3m2, 3, 28, 0.25, 0.0625, 0.25},
    {kFp6E2m3, 1, 7.5, 1, 0.125, 0.125},
    {kFp4E2m1, 1, 6, 1, 0.5, 0.5},
};

TEST(NumberFormat, FiguresOfTheSpecifications) {
  for (const Published& p : kPublished) {
    SCOPED_TRACE(p.format.name);
    EXPECT_EQ(p.format.bias(), p.bias);
    EXPECT_EQ(p.format.largest(), p.largest);
    EXPECT_EQ(p.format.smallest_normal(), p.smallest_normal);
    EXPECT_EQ(p.format.smallest_subnormal(), p.smallest_subnormal);
    EXPECT_EQ(p.format.epsilon(), p.epsilon);
  }
}

TEST(NumberFormat, AnE4m3WithAnInfinityWouldEndAt240) {
  constexpr NumberFormat kIeeeStyle{"e4m3", 4, 3, TopExponent::kInfinityAndNan};
  EXPECT_EQ(kIeeeStyle.largest(), 240.0);
}

TEST(NumberFormat, AllCodesOfSixteenAndEightBits) {
  const std::pair<NumberFormat, test::SmallFormat> pairs[] = {{kBf16, test::kBf16Table},
                                                              {kFp16, test::kFp16Table},
                                                              {kFp8E4m3, test::kE4m3Table},
                                                              {kFp8E5m2, test::kE5m2Table}};
  for (const auto& [format, table] : pairs) {
    SCOPED_TRACE(format.name);
    const std::vector<double> magnitudes = test::magnitudes_of(table);
    EXPECT_EQ(format.finite_numbers(), 2 * magnitudes.size() - 1);
    const std::uint32_t sign = 1U << static_cast<unsigned>(format.bits() - 1);
    for (std::uint32_t code = 0; code < sign; ++code) {
      if (code < magnitudes.size()) {
        ASSERT_EQ(decode(format, code), magnitudes[code]);
        ASSERT_EQ(decode(format, code | sign), -magnitudes[code]);
      } else if (format.has_infinity() && code == magnitudes.size()) {
        ASSERT_EQ(decode(format, code), std::numeric_limits<double>::infinity());
      } else {
        ASSERT_TRUE(std::isnan(decode(format, code)));
        ASSERT_TRUE(std::isnan(decode(format, code | sign)));
      }
    }
  }
}

TEST(NumberFormat, AllCodesOfFp4) {
  const std::vector<double> magnitudes = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::uint32_t code = 0; code < 8; ++code) {
    EXPECT_EQ(decode(kFp4E2m1, code), magnitudes[code]);
    EXPECT_EQ(decode(kFp4E2m1, code | 8U), -magnitudes[code]);
  }
  EXPECT_EQ(kFp4E2m1.finite_numbers(), 15U);
}

TEST(NumberFormat, TheProcessorsFp32) {
  test::Random random(test::seed_of_this_run());
  for (int round = 0; round < 20000; ++round) {
    const auto code = static_cast<std::uint32_t>(random.between(0, 0xFFFFFFFFU));
    const auto number = static_cast<double>(std::bit_cast<float>(code));
    if (!std::isnan(number)) {
      ASSERT_EQ(decode(kFp32, code), number);
    }
  }
}

TEST(FormatTable, HasALineForEachFormat) {
  const std::string table = format_table();
  for (const NumberFormat& format : kNumberFormats) {
    EXPECT_THAT(table, HasSubstr(std::string(format.name)));
  }
  EXPECT_THAT(table, ::testing::ContainsRegex("fp8 e4m3 +8 +1/4/3 +7 +448 +0.015625 +0.00195312"));
}

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

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

TEST_F(SmallFloats, InfinityAndNan) {
  EXPECT_EQ(fp16_from_f32(kFloatInfinity), 0x7C00);
  EXPECT_EQ(fp16_from_f32(-kFloatInfinity), 0xFC00);
  EXPECT_EQ(e5m2_from_f32(kFloatInfinity), 0x7C);
  EXPECT_EQ(e5m2_from_f32(-kFloatInfinity, Overflow::kSaturate), 0xFB);
  EXPECT_EQ(fp16_from_f32(kFloatInfinity, Overflow::kSaturate), 0x7BFF);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Overflow overflow : {Overflow::kInfinity, Overflow::kSaturate}) {
    EXPECT_TRUE(std::isnan(f32_from_fp16(fp16_from_f32(nan, overflow))));
    EXPECT_EQ(e5m2_from_f32(-nan, overflow), 0xFE);
  }
}

class ConversionsAgree : public ultra::test::RandomTest {
 protected:
  /// All upper halves, each with the lower halves that decide and a random one.
  std::vector<float> dense_sample() {
    std::vector<float> sample;
    for (std::uint32_t upper = 0; upper <= 0xFFFF; ++upper) {
      const auto drawn = static_cast<std::uint32_t>(random.between(0, 0xFFFF));
      for (const std::uint32_t lower :
           {0U, 1U, 0x0FFFU, 0x1000U, 0x7FFFU, 0x8000U, 0x8001U, drawn}) {
        sample.push_back(std::bit_cast<float>(upper << 16U | lower));
      }
    }
    return sample;
  }
};

bool same_or_both_nan(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

TEST_F(ConversionsAgree, FromF32) {
  const std::vector<float> sample = dense_sample();
  std::vector<BFloat16> bf16(sample.size());
  std::vector<Float16> fp16(sample.size());
  convert(std::span<const float>(sample), std::span(bf16));
  convert(std::span<const float>(sample), std::span(fp16));
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const float x = sample[i];
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(bf16[i])) &&
                  std::isnan(static_cast<float>(fp16[i])));
      continue;
    }
    ASSERT_EQ(bf16[i].bits, bf16_from_f32(x)) << x;
    ASSERT_EQ(round_to<BFloat16>(x).bits, bf16_from_f32(x)) << x;
    ASSERT_EQ(fp16[i].bits, fp16_from_f32(x)) << x;
    ASSERT_EQ(round_to<Float16>(x).bits, fp16_from_f32(x)) << x;
  }
}

TEST_F(ConversionsAgree, BackFromAllPatterns) {
  for (std::uint32_t pattern = 0; pattern <= 0xFFFF; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    ASSERT_TRUE(same_or_both_nan(static_cast<float>(BFloat16{bits}), f32_from_bf16(bits)));
    ASSERT_TRUE(same_or_both_nan(static_cast<float>(Float16{bits}), f32_from_fp16(bits)));
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
