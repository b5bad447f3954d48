// Numbers and texts.
// Covers: common/base/units.hpp
// Covers: common/base/numeric.hpp

#include "common/base/text.hpp"

#include "common/base/numeric.hpp"
#include "common/base/units.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

TEST(Split, KeepsEveryPieceEmptyOnesToo) {
  EXPECT_THAT(split("a,b,c", ','), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split("4x2", 'x'), ElementsAre("4", "2"));
  EXPECT_THAT(split("alone", ','), ElementsAre("alone"));
  EXPECT_THAT(split(",a,,b,", ','), ElementsAre("", "a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(ParseNumber, ReadsWholeNumbersToTheLimitsOfTheirType) {
  EXPECT_EQ(parse_number<int>("0"), 0);
  EXPECT_EQ(parse_number<int>("-2147483648"), std::numeric_limits<int>::min());
  EXPECT_EQ(parse_number<int>("2147483648"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint64_t>("-1"), std::nullopt);
}

TEST(ParseNumber, ReadsRealNumbers) {
  EXPECT_EQ(parse_number<double>("1.5"), 1.5);
  EXPECT_EQ(parse_number<double>("-2e-3"), -2e-3);
  EXPECT_EQ(parse_number<double>("7"), 7.0);
  EXPECT_TRUE(std::isinf(parse_number<double>("inf").value()));
  EXPECT_TRUE(std::isnan(parse_number<double>("nan").value()));
  EXPECT_EQ(parse_number<double>("1e999"), std::nullopt);
}

TEST(ParseNumber, TakesNothingButANumber) {
  for (const char* text : {"", " ", "7 ", " 7", "+7", "7x", "0x10", "seven", "1,5", "1 2"}) {
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << "'" << text << "'";
    EXPECT_EQ(parse_number<std::uint64_t>(text), std::nullopt) << "'" << text << "'";
    EXPECT_EQ(parse_number<double>(text), std::nullopt) << "'" << text << "'";
  }
  EXPECT_EQ(parse_number<int>("1.5"), std::nullopt);
  EXPECT_EQ(parse_number<int>("1e3"), std::nullopt);
}

TEST(InQuotes, ShowsATextThatPrintsAsItIs) {
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("a b"), "'a b'");
  EXPECT_EQ(in_quotes("Größe"), "'Größe'");
  EXPECT_EQ(in_quotes(std::string(60, 'x')), "'" + std::string(60, 'x') + "'");
}

TEST(InQuotes, EscapesWhatDoesNotPrint) {
  EXPECT_EQ(in_quotes("\x1b[31m\n"), R"('\x1b[31m\n')");
  EXPECT_EQ(in_quotes(std::string_view("a\0b", 3)), R"('a\x00b')");
  EXPECT_EQ(in_quotes("\xff"), R"('\xff')") << "no UTF-8";
}

TEST(InQuotes, ShowsTheBeginningOfALongText) {
  const std::string beginning(60, 'x');
  EXPECT_EQ(in_quotes(std::string(1 << 20, 'x')), "'" + beginning + "...' (1048576 bytes)");
  // A character of two bytes at the cut: there is no half of it.
  EXPECT_EQ(in_quotes(std::string(59, 'x') + "öö"), "'" + std::string(59, 'x') + "...' (63 bytes)");
}

// Source: the test vectors of RFC 9923.
TEST(StableHash, MatchesThePublishedKnownAnswers) {
  EXPECT_EQ(stable_hash(""), 0xcbf29ce484222325U);
  EXPECT_EQ(stable_hash("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(stable_hash("foobar"), 0x85944171f73967e8U);
}

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

TEST(CheckedCast, RefusesValuesThatDoNotFit) {
  EXPECT_THROW(static_cast<void>(checked_cast<std::size_t>(-1)), InternalError);
  EXPECT_THROW(static_cast<void>(checked_cast<std::uint8_t>(256)), InternalError);
  EXPECT_THROW(static_cast<void>(checked_cast<int>(std::size_t{1} << 31)), InternalError);
}

}  // namespace
}  // namespace ultra
