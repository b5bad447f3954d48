// Covers: common/base/difference.hpp
#include "common/base/difference.hpp"

#include <gtest/gtest.h>

namespace ultra {
namespace {

TEST(Difference, OfEqualNumbersIsExact) {
  EXPECT_EQ(format_difference(400, 400), "exact");
  EXPECT_EQ(format_difference(0, 0), "exact");
}

TEST(Difference, IsSignedAndRelativeToThePrediction) {
  EXPECT_EQ(format_difference(405, 400), "+1.25%");
  EXPECT_EQ(format_difference(200, 400), "-50.00%");
  EXPECT_EQ(format_difference(405, 400, 0), "+1%");
}

}  // namespace
}  // namespace ultra
