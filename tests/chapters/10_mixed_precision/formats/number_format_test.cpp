#include "chapters/10_mixed_precision/formats/number_format.hpp"

#include <bit>

#include "chapters/10_mixed_precision/formats/format_table.hpp"
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

}  // namespace
}  // namespace ultra::mixed_precision
