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

}  // namespace
}  // namespace ultra::mixed_precision
