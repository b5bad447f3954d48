#include "common/base/numeric.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace ultra {
namespace {

TEST(CheckedCast, KeepsValuesThatFit) {
  EXPECT_EQ(checked_cast<int>(std::size_t{42}), 42);
  EXPECT_EQ(checked_cast<std::uint8_t>(255), 255);
  EXPECT_EQ(checked_cast<std::int8_t>(-128), -128);
  EXPECT_EQ(checked_cast<int>(std::numeric_limits<int>::max()), std::numeric_limits<int>::max());
}

TEST(CheckedCast, RefusesValuesThatDoNotFit) {
  EXPECT_THROW(static_cast<void>(checked_cast<std::size_t>(-1)), InternalError);
  EXPECT_THROW(static_cast<void>(checked_cast<std::uint8_t>(256)), InternalError);
  EXPECT_THROW(static_cast<void>(checked_cast<int>(std::size_t{1} << 31)), InternalError);
}

TEST(CheckedCast, WorksInConstantExpressions) {
  static_assert(checked_cast<int>(std::size_t{7}) == 7);
}

TEST(CeilDiv, IsTheSmallestQuotientThatCovers) {
  for (int a = 0; a <= 40; ++a) {
    for (int b = 1; b <= 9; ++b) {
      const int q = ceil_div(a, b);
      EXPECT_GE(q * b, a) << a << " / " << b;
      EXPECT_LT((q - 1) * b, a) << a << " / " << b;
    }
  }
}

TEST(RoundUp, IsTheSmallestMultipleThatCovers) {
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(1, 64), 64);
  EXPECT_EQ(round_up(64, 64), 64);
  EXPECT_EQ(round_up(65, 64), 128);
  EXPECT_EQ(round_up<std::size_t>(7, 1), 7U);
}

}  // namespace
}  // namespace ultra
