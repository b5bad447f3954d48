// Covers: common/ops/rope_scaling.hpp

#include "common/ops/rope.hpp"

#include <numbers>

#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::ops {
namespace {

constexpr double kTheta = 10000.0;
constexpr std::size_t kPositions = 300;

class RopeTest : public test::RandomTest {
 protected:
  /// [batch, seq, heads, head_dim] with odd sizes, and ascending absolute positions.
  void draw(DType dtype) {
    const std::size_t head_dim = 2 * random.between(1, 9);
    x = random.tensor(device,
                      {random.between(1, 3), random.between(1, 7), random.between(1, 3), head_dim},
                      dtype);
    positions.clear();
    for (std::size_t i = 0; i < x.size(1); ++i) {
      positions.push_back(static_cast<std::int32_t>(random.between(0, kPositions - 1)));
    }
  }

  [[nodiscard]] RopeTable table() const {
    return RopeTable(device, x.dtype(), x.size(3), kPositions, kTheta);
  }

  Tensor x;
  std::vector<std::int32_t> positions;
};

/// Rotates pair (i, i + half) of a head in extended precision.
struct Rotated {
  Rotated(const std::vector<double>& head, std::size_t at, std::int32_t position, DType dtype) {
    const std::size_t half = head.size() / 2;
    const std::size_t i = at % half;
    const long double angle =
        static_cast<long double>(position) *
        std::pow(static_cast<long double>(kTheta),
                 -2.0L * static_cast<long double>(i) / static_cast<long double>(2 * half));
    const long double cosine = std::cos(angle);
    const long double sine = std::sin(angle);
    const long double a = head[i];
    const long double b = head[i + half];
    value = static_cast<double>(at < half ? a * cosine - b * sine : b * cosine + a * sine);
    // Two products, a sum, and the table's rounding; the table's angle in f64 is off by 3 ulp.
    const double size = std::abs(head[i]) + std::abs(head[i + half]);
    tolerance = rounding_bound(dtype, 4, size) +
                rounding_bound(DType::kF64, 3.0 * static_cast<double>(angle), size);
  }
  double value;
  double tolerance;
};

TEST_F(RopeTest, TurnsEachPairByItsAngle) {
  for (int round = 0; round < 12; ++round) {
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    draw(dtype);
    const std::vector<double> before = x.to_vector();
    rope_into(x, table(), positions, Rotation::kForward);
    const std::size_t d = x.size(3);
    std::vector<double> expected;
    std::vector<double> tolerances;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::size_t first = i / d * d;
      const std::vector<double> head(before.begin() + static_cast<std::ptrdiff_t>(first),
                                     before.begin() + static_cast<std::ptrdiff_t>(first + d));
      const std::size_t row = i / (d * x.size(2)) % x.size(1);
      const Rotated rotated(head, i % d, positions[row], dtype);
      expected.push_back(rotated.value);
      tolerances.push_back(rotated.tolerance);
    }
    EXPECT_TRUE(all_near(x, expected, tolerances)) << x.shape().str();
  }
}

TEST_F(RopeTest, TheGradientIsTheRotationBack) {
  draw(DType::kF64);
  const Tensor d_y = random.tensor(device, x.shape(), DType::kF64);
  const RopeTable t = table();
  const auto f = [&] {
    const Tensor y = x.clone();
    rope_into(y, t, positions, Rotation::kForward);
    return test::inner_product(d_y, y);
  };
  const Tensor d_x = d_y.clone();
  rope_into(d_x, t, positions, Rotation::kBackward);
  EXPECT_TRUE(test::gradients_match(random, f, {{"x", x, d_x}}));
}

// Llama 3.1's numbers: of waves in 8192 tokens, one and less are slowed down eightfold, four and more are
// not, and in between the share that is not grows with their number.
TEST_F(RopeTest, ScalingSlowsSlowRotationsDown) {
  const RopeScaling scaling{.factor = 8, .original_positions = 8192};
  const double one_wave = 2 * std::numbers::pi / 8192;
  for (const auto& [waves, kept] : std::vector<std::pair<double, double>>{
           {100, 1}, {4.01, 1}, {4, 1}, {2.5, 0.5}, {1.75, 0.25}, {1, 0}, {0.99, 0}, {1e-3, 0}}) {
    const double frequency = waves * one_wave;
    EXPECT_NEAR(scaling(frequency), frequency * (kept + (1 - kept) / 8), 1e-15 * frequency)
        << waves;
  }
  constexpr std::size_t kHalf = 8;
  const RopeTable table(device, DType::kF64, 2 * kHalf, 50, kTheta, scaling);
  for (std::size_t i = 0; i < kHalf; ++i) {
    const double angle = 49 * scaling(std::pow(kTheta, -static_cast<double>(i) / kHalf));
    EXPECT_NEAR(table.sines().to_vector()[49 * kHalf + i], std::sin(angle), 1e-13);
    EXPECT_NEAR(table.cosines().to_vector()[49 * kHalf + i], std::cos(angle), 1e-13);
  }
}

// Where a part of each head is rotated, its halves stand in front of the head's halves, and turn as in a
// head of that width alone; the others stay.
TEST_F(RopeTest, APartOfAHeadTurnsAsIfItWereAlone) {
  draw(DType::kF64);
  const std::size_t half = x.size(3) / 2;
  const std::size_t part = random.between(1, half);  // half of what is rotated
  const Tensor alone =
      Tensor::empty(device, {x.size(0), x.size(1), x.size(2), 2 * part}, DType::kF64);
  const Tensor before = x.clone();
  for (const std::size_t second : {0U, 1U}) {
    alone.slice(3, {second * part, (second + 1) * part})
        .copy_from(x.slice(3, {second * half, second * half + part}));
  }
  rope_into(x, RopeTable(device, DType::kF64, 2 * half, kPositions, kTheta, {}, 2 * part),
            positions, Rotation::kForward);
  rope_into(alone, RopeTable(device, DType::kF64, 2 * part, kPositions, kTheta), positions,
            Rotation::kForward);
  for (const std::size_t second : {0U, 1U}) {
    const std::size_t at = second * half;
    EXPECT_TRUE(test::all_equal(x.slice(3, {at, at + part}),
                                alone.slice(3, {second * part, (second + 1) * part})));
    EXPECT_TRUE(test::all_equal(x.slice(3, {at + part, at + half}),
                                before.slice(3, {at + part, at + half})));
  }
}

TEST_F(RopeTest, BadInputIsNamed) {
  EXPECT_THAT(message_of<ConfigError>([&] { RopeTable(device, DType::kF32, 5, 10, kTheta); }),
              HasSubstr("even head dimension, found 5"));
  const RopeTable t(device, DType::kF32, 4, 10, kTheta);
  const Tensor good = Tensor::zeros(device, {1, 2, 3, 4}, DType::kF32);
  const auto fails = [&](const Tensor& bad, std::vector<std::int32_t> at) {
    return message_of<ShapeError>([&] { rope_into(bad, t, at, Rotation::kForward); });
  };
  EXPECT_THAT(fails(good, {0, 10}), HasSubstr("position 10 is outside of the table's [0, 10)"));
  EXPECT_THAT(fails(good, {-1, 0}), HasSubstr("position -1"));
  EXPECT_THAT(fails(good, {0}), HasSubstr("[batch, 1, heads, 4] of f32, found [1, 2, 3, 4]"));
  EXPECT_THAT(fails(good.to(DType::kF64), {0, 1}), HasSubstr("of f64"));
  EXPECT_THAT(fails(good.transpose(1, 2), {0, 1, 2}), HasSubstr("contiguous"));
  EXPECT_THAT(fails(good.view({1, 2, 6, 2}), {0, 1}), HasSubstr("[1, 2, 6, 2]"));
}

}  // namespace
}  // namespace ultra::ops
