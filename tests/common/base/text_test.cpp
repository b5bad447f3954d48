#include "common/base/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

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

}  // namespace
}  // namespace ultra
