#include "chapters/10_mixed_precision/stochastic_rounding.hpp"

#include <bit>

#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

class StochasticallyRounded : public ultra::test::RandomTest {
 protected:
  std::vector<BFloat16> rounded(const std::vector<float>& x, const PhiloxStream& stream,
                                std::uint64_t first = 0) {
    std::vector<BFloat16> out(x.size());
    round_stochastically(x, out, stream, first);
    return out;
  }
};

TEST_F(StochasticallyRounded, TheMeanOfManyIsTheNumber) {
  constexpr std::size_t kCount = 20000;
  for (int round = 0; round < 5; ++round) {
    const auto x = static_cast<float>(random.normal());
    const PhiloxStream stream(random.between(0, 1U << 30U), "weight");
    double sum = 0;
    for (const BFloat16 number : rounded(std::vector<float>(kCount, x), stream)) {
      sum += static_cast<double>(number);
    }
    // Each is off by less than a step, so the standard deviation of the mean is at most half a step
    // over the root of the count. Six of them: once in 500 million runs.
    const double step = std::exp2(std::ilogb(x) - 7);
    const double bound = 6 * step / 2 / std::sqrt(static_cast<double>(kCount));
    EXPECT_NEAR(sum / kCount, static_cast<double>(x), bound);
  }
}

TEST_F(StochasticallyRounded, PartsOfATensorAreRoundedAsTheWhole) {
  std::vector<float> x;
  for (int i = 0; i < 300; ++i) x.push_back(static_cast<float>(random.normal()));
  const PhiloxStream stream(7, "weight, step 3");
  const std::vector<BFloat16> whole = rounded(x, stream);
  const std::size_t cut = random.between(1, 299);
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(cut);
  const std::vector<BFloat16> second = rounded({middle, x.end()}, stream, cut);
  for (std::size_t i = 0; i < second.size(); ++i) EXPECT_EQ(second[i].bits, whole[cut + i].bits);
}

TEST_F(StochasticallyRounded, SmallUpdatesArriveOnAverage) {
  // A thousand updates of a tenth of half a step: rounded to nearest, none would arrive.
  constexpr std::size_t kWeights = 400;
  std::vector<float> weights(kWeights, 1.0F);
  const float update = 0x1p-8F / 10;
  for (int step = 0; step < 1000; ++step) {
    for (float& weight : weights) weight += update;
    const PhiloxStream stream(seed, "step " + std::to_string(step));
    const std::vector<BFloat16> stored = rounded(weights, stream);
    for (std::size_t i = 0; i < kWeights; ++i) weights[i] = static_cast<float>(stored[i]);
  }
  double mean = 0;
  for (const float weight : weights) mean += static_cast<double>(weight) / kWeights;
  const double expected = 1.0 + 1000 * static_cast<double>(update);
  // The variance of one rounding is at most a quarter of a squared step, 2^-7 below 2; they add up.
  const double deviation = 0x1p-7 / 2 * std::sqrt(1000.0 / kWeights);
  EXPECT_NEAR(mean, expected, 6 * deviation);
}

}  // namespace
}  // namespace ultra::mixed_precision
