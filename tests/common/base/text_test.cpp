#include "common/base/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

namespace ultra {
namespace {

using ::testing::ElementsAre;

TEST(Split, KeepsEveryPieceEmptyOnesToo) {
  EXPECT_THAT(split("a,b,c", ','), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split("4x2", 'x'), ElementsAre("4", "2"));
  EXPECT_THAT(split("alone", ','), ElementsAre("alone"));
  EXPECT_THAT(split(",a,,b,", ','), ElementsAre("", "a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Split, PiecesLieInTheText) {
  const std::string text = "one:two";
  EXPECT_EQ(split(text, ':').back().data(), text.data() + 4);
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

TEST(StableHash, TakesEveryByteAsItIs) {
  EXPECT_NE(stable_hash("ab"), stable_hash("ba"));
  EXPECT_NE(stable_hash("a"), stable_hash(std::string_view("a\0", 2)));
  // One step by hand, of a byte that is negative as a signed char.
  EXPECT_EQ(stable_hash("\xff"), (0xcbf29ce484222325U ^ 0xffU) * 0x100000001b3U);
}

}  // namespace
}  // namespace ultra
