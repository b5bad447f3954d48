#include "chapters/10_mixed_precision/fp8/accumulator.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

class ProductSums : public ultra::test::RandomTest {
 protected:
  static float sum_of(std::span<const float> products, Accumulator accumulator) {
    ProductSum sum(accumulator);
    while (!products.empty()) {
      const std::size_t count = std::min(products.size(), kInstructionProducts);
      sum.add(products.first(count));
      products = products.subspan(count);
    }
    return sum.value();
  }
};

TEST_F(ProductSums, IntegersThatFitAreExact) {
  std::vector<float> products;
  double exact = 0;
  const std::size_t count = random.between(1, 300);
  for (std::size_t i = 0; i < count; ++i) {
    products.push_back(static_cast<float>(random.between(0, 40)) - 20.0F);
    exact += static_cast<double>(products.back());
  }
  EXPECT_EQ(sum_of(products, Accumulator::kFewBits), exact);
  EXPECT_EQ(sum_of(products, Accumulator::kF32), exact);
}

TEST_F(ProductSums, FewBitsCutOffWhatLiesBelow) {
  const std::vector<float> products = {1.0F, 0x1.8p-13F, 0x1p-14F};  // the last place is 2^-13
  EXPECT_EQ(sum_of(products, Accumulator::kFewBits), 1.0F + 0x1p-13F);
  EXPECT_EQ(sum_of(products, Accumulator::kF32), 1.0F + 0x1.8p-13F + 0x1p-14F);
}

TEST_F(ProductSums, FewBitsLoseNoMoreThanAPlaceForEachTerm) {
  std::vector<float> products;
  double exact = 0;
  double partial = 0;
  double largest = 0;  // of all terms and all sums so far
  for (std::size_t i = 0; i < 512; ++i) {
    products.push_back(static_cast<float>(random.normal()));
    exact += static_cast<double>(products.back());
    partial += std::abs(static_cast<double>(products.back()));
    largest = std::max(largest, partial);
  }
  // Each of 512 products, and the sum in each of 16 instructions, loses less than a last place.
  const double place = std::exp2(std::ilogb(largest) - (kAccumulatorBits - 1));
  EXPECT_NEAR(sum_of(products, Accumulator::kFewBits), exact, (512 + 16) * place);
}

TEST_F(ProductSums, ALongSumOfFewBitsStandsStill) {
  const std::vector<float> ones(40000, 1.0F);
  EXPECT_EQ(sum_of(ones, Accumulator::kF32), 40000.0F);
  // From 2^14 on the last place is 2, and a product of 1 is cut off.
  EXPECT_EQ(sum_of(ones, Accumulator::kFewBits), 16384.0F);
}

TEST_F(ProductSums, WhatIsNotFiniteIsNotHidden) {
  for (const Accumulator accumulator : {Accumulator::kF32, Accumulator::kFewBits}) {
    const std::vector<float> products = {1.0F, std::numeric_limits<float>::quiet_NaN()};
    EXPECT_TRUE(std::isnan(sum_of(products, accumulator)));
    const float infinite = sum_of(std::vector{std::numeric_limits<float>::infinity()}, accumulator);
    EXPECT_FALSE(std::isfinite(infinite));
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
