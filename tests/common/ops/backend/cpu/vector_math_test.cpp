#include "common/ops/backend/cpu/vector_math.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::ops::cpu {
namespace {

class VectorMathTest : public test::RandomTest {};

/// Distance of `found` from the exact value, in units of the exact value's last place.
double error_in_ulp(float found, double exact) {
  const int exponent = std::ilogb(exact);
  return std::abs(static_cast<double>(found) - exact) / std::ldexp(1.0, exponent - 23);
}

TEST_F(VectorMathTest, ExpIsWithinTwoUlpOverItsRange) {
  float worst_at = 0.0F;
  double worst = 0.0;
  const auto visit = [&](float x) {
    const double error = error_in_ulp(exp_of(x), std::exp(static_cast<double>(x)));
    EXPECT_FALSE(std::isnan(error)) << "at " << x;
    if (error > worst) {
      worst = error;
      worst_at = x;
    }
  };
  for (float x = -87.3F; x <= 88.3F; x += 0x1.0p-13F) visit(x);
  for (int i = 0; i < 200'000; ++i) visit(static_cast<float>(random.uniform(-87.3, 88.3)));
  for (int i = 0; i < 100'000; ++i) visit(static_cast<float>(random.uniform(-1.0, 1.0) * 1e-3));
  EXPECT_LE(worst, 2.0) << "at " << worst_at;
}

TEST_F(VectorMathTest, ExpOfSpecialArguments) {
  EXPECT_EQ(exp_of(0.0F), 1.0F);
  EXPECT_EQ(exp_of(-0.0F), 1.0F);
  EXPECT_EQ(exp_of(-87.4F), 0.0F);
  EXPECT_EQ(exp_of(-1e30F), 0.0F);
  EXPECT_EQ(exp_of(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_GT(exp_of(1e30F), 2e38F);
  EXPECT_TRUE(std::isnan(exp_of(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(exp_of(-std::numeric_limits<double>::infinity()), 0.0);
}

}  // namespace
}  // namespace ultra::ops::cpu
