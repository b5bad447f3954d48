// Contract of exercise 10.6: rounding by chance, counted over all random numbers.
#include "chapters/10_mixed_precision/stochastic_rounding.hpp"

#include <bit>

#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr std::uint32_t kDraws = 1U << 16U;

constexpr const char* kExact = "Hint: a number that bf16 has stays what it is, whatever is drawn.";
constexpr const char* kNeighbour = "Hint: one of the two neighbours of x, nothing else.";
constexpr const char* kMean =
    "Hint: the odds of the neighbour further from zero are the distance to the other one, as a "
    "part of the step between them; the lower 16 bits of x say it.";
constexpr const char* kSpecial = "Hint: infinity and NaN are no numbers to be rounded.";

float number_of(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

class StochasticRounding : public ultra::test::RandomTest {
 protected:
  /// A number of moderate size.
  float any() {
    return static_cast<float>(random.normal() * std::exp2(random.uniform(-30.0, 30.0)));
  }
  std::uint16_t draw() { return static_cast<std::uint16_t>(random.between(0, kDraws - 1)); }
};

TEST_F(StochasticRounding, NumbersOfTheFormatStay) {
  for (int round = 0; round < 20000; ++round) {
    const auto bits = static_cast<std::uint16_t>(random.between(0, 0xFFFF));
    if (!std::isfinite(number_of(bits))) continue;
    for (const std::uint16_t random_bits : {std::uint16_t{0}, std::uint16_t{0xFFFF}, draw()}) {
      ASSERT_EQ(bf16_stochastic(number_of(bits), random_bits), bits) << kExact;
    }
  }
}

TEST_F(StochasticRounding, OneOfTheTwoNeighbours) {
  for (int round = 0; round < 20000; ++round) {
    const float x = any();
    const auto inner = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16U);
    const std::uint16_t rounded = bf16_stochastic(x, draw());
    ASSERT_TRUE(rounded == inner || rounded == inner + 1) << kNeighbour << " x = " << x;
  }
}

TEST_F(StochasticRounding, TheMeanOfAllDrawsIsTheNumber) {
  for (int round = 0; round < 10; ++round) {
    // Once a quarter of bf16's smallest number.
    const float x = round == 0 ? std::bit_cast<float>(0x00004000U) : any();
    double sum = 0;
    for (std::uint32_t d = 0; d < kDraws; ++d) {
      sum += static_cast<double>(number_of(bf16_stochastic(x, static_cast<std::uint16_t>(d))));
    }
    // Every term has at most 9 bits more than f64 needs for 65,536 of them: the sum is exact.
    ASSERT_EQ(sum / kDraws, static_cast<double>(x)) << kMean << " x = " << x;
  }
}

TEST_F(StochasticRounding, InfinityAndNanStay) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (int round = 0; round < 100; ++round) {
    EXPECT_EQ(number_of(bf16_stochastic(kInfinity, draw())), kInfinity) << kSpecial;
    EXPECT_EQ(number_of(bf16_stochastic(-kInfinity, draw())), -kInfinity) << kSpecial;
    const auto drawn = static_cast<std::uint32_t>(random.between(1, 0x7FFFFF));
    for (const std::uint32_t fraction : {1U, 0x7FFFFFU, drawn}) {
      const auto nan = std::bit_cast<float>(0x7F800000U | fraction);
      ASSERT_TRUE(std::isnan(number_of(bf16_stochastic(nan, draw())))) << kSpecial;
      ASSERT_TRUE(std::isnan(number_of(bf16_stochastic(-nan, draw())))) << kSpecial;
    }
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
