#include "common/optim/clip.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra::optim {
namespace {

class GlobalNorm : public test::RandomTest {
 protected:
  Tensor of(std::initializer_list<double> values) const {
    const std::vector<double> list(values);
    return Tensor::from<double>(device, {list.size()}, list);
  }
};

TEST_F(GlobalNorm, IsTheNormOfAllElementsTogether) {
  const std::vector<Tensor> tensors = {of({2.0, -3.0}), of({6.0}), of({})};
  EXPECT_EQ(global_norm(tensors), 7.0) << "4 + 9 + 36 = 49";
  EXPECT_EQ(global_norm({}), 0.0);
}

TEST_F(GlobalNorm, AccumulatesF32InF64) {
  // In f32, 2^24 + 1 = 2^24: a sum of ones in f32 would stop there.
  const Tensor large = Tensor::empty(device, {3}, DType::kF32);
  const float values[] = {4096.0F, 1.0F, 1.0F};
  for (std::size_t i = 0; i < 3; ++i) large.span<float>()[i] = values[i];
  EXPECT_EQ(global_norm(std::vector<Tensor>{large}), std::sqrt(0x1.0p24 + 2.0));
}

TEST_F(GlobalNorm, EqualsAnExtendedPrecisionSum) {
  for (const DType dtype : test::kFloatDTypes) {
    std::vector<Tensor> tensors;
    long double squares = 0.0L;
    std::size_t count = 0;
    for (std::size_t i = random.between(1, 6); i > 0; --i) {
      tensors.push_back(
          random.tensor(device, {random.between(1, 40), random.between(1, 9)}, dtype));
      count += tensors.back().numel();
      for (const double v : tensors.back().to_vector()) {
        squares += static_cast<long double>(v) * static_cast<long double>(v);
      }
    }
    const double expected = static_cast<double>(std::sqrt(squares));
    EXPECT_NEAR(global_norm(tensors), expected,
                test::rounding_bound(DType::kF64, test::count_of(count), expected));
  }
}

TEST_F(GlobalNorm, IsNotFiniteWhenAnElementIsNot) {
  EXPECT_TRUE(std::isnan(global_norm(
      std::vector<Tensor>{of({1.0, std::numeric_limits<double>::quiet_NaN()}), of({2.0})})));
  EXPECT_TRUE(std::isinf(
      global_norm(std::vector<Tensor>{of({1.0, -std::numeric_limits<double>::infinity()})})));
}

TEST(ClipCoefficient, ScalesLargeGradientsToTheLimitAndLeavesSmallOnesAlone) {
  EXPECT_EQ(clip_coefficient(4.0, 1.0), 0.25);
  EXPECT_EQ(clip_coefficient(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_coefficient(1.0, 1.0), 1.0) << "at the limit nothing is to be done";
  EXPECT_EQ(clip_coefficient(0.0, 1.0), 1.0);
}

TEST(ClipCoefficient, ALimitOfZeroIsNoClipping) { EXPECT_EQ(clip_coefficient(1e300, 0.0), 1.0); }

TEST_F(GlobalNorm, ClippedGradientsHaveTheLimitsNorm) {
  const Tensor grads = random.tensor(device, {31, 7}, DType::kF64, 10.0);
  const double limit = random.uniform(0.1, 2.0);
  const double coefficient = clip_coefficient(global_norm(std::vector<Tensor>{grads}), limit);
  for (double& value : grads.span<double>()) value *= coefficient;
  EXPECT_NEAR(global_norm(std::vector<Tensor>{grads}), limit,
              test::rounding_bound(DType::kF64, 31 * 7 + 4, limit));
}

}  // namespace
}  // namespace ultra::optim
