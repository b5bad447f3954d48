#include "common/base/units.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra {
namespace {

using ::testing::HasSubstr;

TEST(FormatBytes, UsesDecimalUnitsAndThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(1234567), "1.23 MB");
  EXPECT_EQ(format_bytes(12'345'678), "12.3 MB");
  EXPECT_EQ(format_bytes(123'456'789), "123 MB");
  EXPECT_EQ(format_bytes(80'000'000'000), "80.0 GB");
  EXPECT_EQ(format_bytes(1'500'000'000'000), "1.50 TB");
}

TEST(FormatBytes, NeverShowsFourDigitsBeforeTheUnit) {
  EXPECT_EQ(format_bytes(9'994), "9.99 kB");
  EXPECT_EQ(format_bytes(9'996), "10.0 kB");
  EXPECT_EQ(format_bytes(99'960), "100 kB");
  EXPECT_EQ(format_bytes(999'499), "999 kB");
  EXPECT_EQ(format_bytes(999'600), "1.00 MB");
}

TEST(FormatBytes, TheLargestUnitTakesWhatIsLeft) {
  EXPECT_EQ(format_bytes(18'000'000'000'000'000'000ULL), "18000 PB");
}

TEST(FormatCount, SeparatesThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(12345), "12,345");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(175'181'291'520ULL), "175,181,291,520");
}

TEST(FormatSeconds, PicksDigitsByLength) {
  EXPECT_EQ(format_seconds(0.42), "0.42 s");
  EXPECT_EQ(format_seconds(0.0), "0.00 s");
  EXPECT_EQ(format_seconds(12.3), "12 s");
  EXPECT_EQ(format_seconds(9.996), "10 s");
  EXPECT_EQ(format_seconds(59.7), "1 min 00 s");
  EXPECT_EQ(format_seconds(187.0), "3 min 07 s");
  EXPECT_EQ(format_seconds(60.0), "1 min 00 s");
  EXPECT_EQ(format_seconds(3599.6), "60 min 00 s");
  EXPECT_EQ(format_seconds(9e14), "15000000000000 min 00 s");
  EXPECT_EQ(format_seconds(1e30), "1e+30 s") << "more than an integer holds";
}

TEST(ParseBytes, ReadsDecimalAndBinaryUnitsInAnyCase) {
  EXPECT_EQ(parse_bytes("4096"), 4096U);
  EXPECT_EQ(parse_bytes("64MB"), 64'000'000U);
  EXPECT_EQ(parse_bytes("64 mb"), 64'000'000U);
  EXPECT_EQ(parse_bytes("1.5 GiB"), 1'610'612'736U);
  EXPECT_EQ(parse_bytes("1KiB"), 1024U);
  EXPECT_EQ(parse_bytes("80GB"), 80'000'000'000U);
  EXPECT_EQ(parse_bytes("2TB"), 2'000'000'000'000U);
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("7 B"), 7U);
}

TEST(ParseBytes, ReadsBackWhatFormatBytesWrote) {
  for (const std::uint64_t bytes : {0ULL, 12ULL, 1230ULL, 45'600'000ULL, 789'000'000'000ULL}) {
    EXPECT_EQ(parse_bytes(format_bytes(bytes)), bytes);
  }
}

TEST(ParseBytes, RefusesWhatIsNoSizeAndQuotesIt) {
  for (const std::string text : {"", "MB", "12 apples", "-5", "-1MB", "nan", "inf", "1.2.3",
                                 "3 MBB", "1e300", "99999999TB"}) {
    SCOPED_TRACE(text);
    const std::string message =
        test::message_of<ConfigError>([&] { static_cast<void>(parse_bytes(text)); });
    EXPECT_THAT(message, HasSubstr("'" + text + "'"));
    EXPECT_THAT(message, HasSubstr("64MB"));
  }
}

}  // namespace
}  // namespace ultra
