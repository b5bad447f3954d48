#include "common/tensor/philox.hpp"

#include <array>
#include <numbers>

#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using Words = std::array<std::uint32_t, 4>;

class PhiloxTest : public test::RandomTest {
 protected:
  /// A part of a tensor of up to three dimensions; it may be empty.
  struct Part {
    Shape global;
    std::vector<Range> shard;

    [[nodiscard]] Shape shape() const {
      std::vector<std::size_t> extents;
      for (const Range& range : shard) extents.push_back(range.size());
      return Shape(extents);
    }
  };

  Part draw_part() {
    std::vector<std::size_t> dims(random.between(1, 3));
    Part part;
    for (std::size_t& extent : dims) {
      extent = random.between(1, 8);
      const std::size_t begin = random.between(0, extent);
      part.shard.push_back({begin, random.between(begin, extent)});
    }
    part.global = Shape(dims);
    return part;
  }
};

// Source: Random123's kat_vectors, lines "philox4x32 10".
TEST_F(PhiloxTest, MatchesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// Six standard errors: exceeded by chance about twice in 1e9 runs.
double six_sigma(double variance_of_one, std::size_t samples) {
  return 6.0 * std::sqrt(variance_of_one / static_cast<double>(samples));
}

TEST_F(PhiloxTest, UniformNumbersFillTheOpenUnitInterval) {
  constexpr std::size_t kSamples = 100'000;
  const PhiloxStream stream(seed, "uniform");
  double sum = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const double u = stream.uniform(i);
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kSamples, 0.5, six_sigma(1.0 / 12.0, kSamples));
  EXPECT_NEAR(squares / kSamples, 1.0 / 3.0, six_sigma(4.0 / 45.0, kSamples));
}

TEST_F(PhiloxTest, AWholeTensorHoldsTheStreamInRowMajorOrder) {
  const PhiloxStream stream(seed, "w");
  const Shape shape{random.between(1, 7), random.between(1, 9)};
  const Tensor whole = Tensor::empty(device, shape, DType::kF64);
  fill_normal(whole, shape, std::vector<Range>{{0, shape[0]}, {0, shape[1]}}, stream, 0.5);
  for (std::size_t i = 0; i < whole.numel(); ++i) {
    EXPECT_EQ(whole.span<double>()[i], 0.5 * stream.normal(i));
  }
}

TEST_F(PhiloxTest, AnyElementsOfAnyShardEqualThatRangeOfIt) {
  const PhiloxStream stream(seed, "w");
  for (int round = 0; round < 40; ++round) {
    const Part part = draw_part();
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    const Tensor whole = Tensor::empty(device, part.shape(), dtype);
    fill_normal(whole, part.global, part.shard, stream, 0.02);
    const std::size_t first = random.between(0, whole.numel());
    const std::size_t count = random.between(0, whole.numel() - first);
    const Tensor found = Tensor::empty(device, {count}, dtype);
    fill_normal_elements(found, first, part.global, part.shard, stream, 0.02);
    const Tensor expected = whole.view({whole.numel()}).slice(0, {first, first + count});
    EXPECT_TRUE(test::all_equal(found, expected))
        << "elements [" << first << ", " << first + count << ") of a shard of "
        << part.shape().str() << " of " << part.global.str();
  }
}

// More elements than one look at Ctrl-C lets pass, of rows that begin at odd and at even places.
TEST_F(PhiloxTest, ManyElementsDrawnByAllCoresAreTheStreamsToo) {
  const PhiloxStream stream(seed, "w");
  const std::size_t rows = 2100 + random.between(0, 9);
  const std::size_t columns = 2100 + random.between(0, 9);
  const Range left{random.between(1, 50), columns - 1};
  const Tensor part = Tensor::empty(device, {rows, left.size()}, DType::kF64);
  fill_normal(part, {rows, columns}, std::vector<Range>{{0, rows}, left}, stream, 1.0);
  const std::size_t step = random.pick({97U, 101U, 103U});
  for (std::size_t i = 0; i < part.numel(); i += step) {
    const std::size_t index = i / left.size() * columns + left.begin + i % left.size();
    ASSERT_EQ(part.span<double>()[i], stream.normal(index)) << i;
  }
}

// Box-Muller, each number by itself, from the words of the published generator.
TEST_F(PhiloxTest, NormalNumbersAreThoseOfBoxAndMuller) {
  const PhiloxStream stream(seed, "w");
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const double u = stream.uniform(i / 2 * 2);
    const double angle = 2.0 * std::numbers::pi * stream.uniform(i / 2 * 2 + 1);
    const double turned = i % 2 == 0 ? std::cos(angle) : std::sin(angle);
    ASSERT_EQ(stream.normal(i), std::sqrt(-2.0 * std::log(u)) * turned) << i;
  }
}

TEST_F(PhiloxTest, SinglePrecisionHoldsTheRoundedDoubles) {
  const PhiloxStream stream(seed, "w");
  const std::vector<Range> all{{0, 33}};
  const Tensor f32 = Tensor::empty(device, {33}, DType::kF32);
  const Tensor f64 = Tensor::empty(device, {33}, DType::kF64);
  fill_normal(f32, {33}, all, stream, 0.02);
  fill_normal(f64, {33}, all, stream, 0.02);
  EXPECT_TRUE(test::all_equal(f32, f64.to(DType::kF32)));
}

TEST_F(PhiloxTest, NormalNumbersHaveTheMomentsOfTheNormalDistribution) {
  constexpr std::size_t kSamples = 200'000;
  const PhiloxStream stream(seed, "moments");
  std::array<double, 5> moment{};
  double neighbours = 0.0;
  double outside_two = 0.0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const double x = stream.normal(i);
    for (std::size_t k = 1; k <= 4; ++k) moment[k] += std::pow(x, static_cast<double>(k));
    neighbours += x * stream.normal(i + 1);
    outside_two += std::abs(x) > 2.0 ? 1.0 : 0.0;
  }
  const auto mean = [](double sum) { return sum / static_cast<double>(kSamples); };
  // E x^k of the normal distribution is 0, 1, 0, 3, and Var x^k is E x^2k - (E x^k)^2.
  EXPECT_NEAR(mean(moment[1]), 0.0, six_sigma(1.0, kSamples));
  EXPECT_NEAR(mean(moment[2]), 1.0, six_sigma(2.0, kSamples));
  EXPECT_NEAR(mean(moment[3]), 0.0, six_sigma(15.0, kSamples));
  EXPECT_NEAR(mean(moment[4]), 3.0, six_sigma(96.0, kSamples));
  EXPECT_NEAR(mean(neighbours), 0.0, six_sigma(1.0, kSamples));
  const double tail = std::erfc(2.0 / std::sqrt(2.0));
  EXPECT_NEAR(mean(outside_two), tail, six_sigma(tail * (1.0 - tail), kSamples));
}

TEST_F(PhiloxTest, BelowDrawsEveryIntegerEquallyOften) {
  constexpr std::size_t kSamples = 60'000;
  const PhiloxStream stream(seed, "below");
  const std::size_t bound = random.between(1, 13);
  std::vector<double> count(bound, 0.0);
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::uint64_t drawn = stream.below(i, bound);
    ASSERT_LT(drawn, bound);
    count[drawn] += 1.0;
  }
  const double p = 1.0 / static_cast<double>(bound);
  for (const double c : count) {
    EXPECT_NEAR(c / kSamples, p, six_sigma(p * (1.0 - p), kSamples) + 1e-12);
  }
  EXPECT_THROW(static_cast<void>(stream.below(0, 0)), InternalError);
}

}  // namespace
}  // namespace ultra
