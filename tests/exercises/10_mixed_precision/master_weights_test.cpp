// Contract of exercise 10.4: updates with and without master weights, and master weights in halves.
#include "chapters/10_mixed_precision/master_weights.hpp"

#include <bit>

#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr const char* kMaster =
    "Hint: the optimizer updates the master weights, which keep what the weights cannot hold.";
constexpr const char* kRounded =
    "Hint: afterwards the weights are the new master weights, rounded to nearest.";
constexpr const char* kNeverRead =
    "Hint: the weights are written and never read: the master weights must not take on what the "
    "weights lost.";
constexpr const char* kTypes =
    "Hint: all tensors of the update have one type: a gradient of two bytes is converted first.";
constexpr const char* kAddUp = "Hint: small updates add up in f32, until the rounded weight moves.";
constexpr const char* kWide =
    "Hint: the numbers in f32 before they are rounded are what the function returns.";
constexpr const char* kOnce = "Hint: one call of the update for one step.";
constexpr const char* kLost =
    "Hint: an update of less than half the last place of a weight is rounded away.";
constexpr const char* kNearest =
    "Hint: the weight is the bf16 number nearest to the master weight; of two, the one farther "
    "from zero: the upper half of the bits, or one more.";
constexpr const char* kUndone =
    "Hint: joined() must know whether the split added one to the upper half. If ties go to the "
    "even number, two master weights have the same halves.";

class MasterWeights : public ultra::test::RandomTest {
 protected:
  Tensor filled(std::size_t n, double value, DType dtype = DType::kF32) {
    return test::filled(device, {n}, dtype, value);
  }
  static std::vector<float> values(const Tensor& x) {
    const Tensor wide = cast(x, DType::kF32);
    const std::span<const float> numbers = wide.span<float>();
    return {numbers.begin(), numbers.end()};
  }
  DType half() { return random.pick({DType::kBF16, DType::kF16}); }

  /// Subtracts half the gradient, and checks that the types are one.
  OptimizerUpdate half_a_gradient = [this](const Tensor& weights, const Tensor& gradient) {
    ++updates;
    ASSERT_EQ(weights.dtype(), DType::kF32) << kTypes;
    ASSERT_EQ(gradient.dtype(), DType::kF32) << kTypes;
    for (std::size_t i = 0; i < weights.numel(); ++i) {
      weights.span<float>()[i] -= 0.5F * gradient.span<float>()[i];
    }
  };
  int updates = 0;
};

TEST_F(MasterWeights, WeightsAreRoundedFromMasterWeightsOrFromTheUpdate) {
  for (int trial = 0; trial < 8; ++trial) {
    const std::size_t n = random.between(1, 40);
    const DType dtype = half();
    const Tensor master = random.tensor(device, {n}, DType::kF32);
    const Tensor gradient =
        cast(random.tensor(device, {n}, DType::kF32), random.pick({DType::kF32, dtype}));
    const Tensor weights = filled(n, 77.0, dtype);
    std::vector<float> expected = values(master);
    const std::vector<float> g = values(gradient);
    for (std::size_t i = 0; i < n; ++i) expected[i] -= 0.5F * g[i];
    updates = 0;
    update_with_master(weights, gradient, master, half_a_gradient);
    EXPECT_EQ(values(master), expected) << kMaster << " " << kNeverRead;
    const Tensor rounded = cast(master, dtype);
    EXPECT_EQ(values(weights), values(rounded)) << kRounded;
    EXPECT_EQ(updates, 1) << kOnce;
    const Tensor alone = cast(random.tensor(device, {n}, DType::kF32), dtype);
    expected = values(alone);
    for (std::size_t i = 0; i < n; ++i) expected[i] -= 0.5F * g[i];
    const Tensor wide = update_without_master(alone, gradient, half_a_gradient);
    EXPECT_EQ(values(wide), expected) << kWide;
    EXPECT_EQ(values(alone), values(cast(wide, dtype)))
        << "Hint: what is kept is rounded to the weights' type.";
  }
}

TEST_F(MasterWeights, SmallUpdatesAddUpInThemAndAreLostWithoutThem) {
  const Tensor master = filled(3, 1.0);
  const Tensor weights = filled(3, 1.0, DType::kBF16);
  const Tensor alone = filled(3, 1.0, DType::kBF16);
  const Tensor gradient = filled(3, -1.0 / 512);
  for (int step = 0; step < 8; ++step) {
    update_with_master(weights, gradient, master, half_a_gradient);
    const Tensor wide = update_without_master(alone, cast(gradient, DType::kBF16), half_a_gradient);
    EXPECT_EQ(values(wide), std::vector<float>(3, 1.0F + 1.0F / 1024)) << kWide;
  }
  EXPECT_EQ(values(master), std::vector<float>(3, 1.0F + 8.0F / 1024)) << kMaster;
  EXPECT_EQ(values(weights), std::vector<float>(3, 1.0F + 1.0F / 128)) << kAddUp;
  EXPECT_EQ(values(alone), std::vector<float>(3, 1.0F)) << kLost;
  EXPECT_EQ(updates, 16) << kOnce;
}

/// The number that is nearest among those of 8 significant bits, by arithmetic in f64.
double nearest_bf16(float x) {
  if (x == 0) return x;
  const double gap = std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7);
  return std::copysign(std::floor(std::abs(double{x}) / gap + 0.5) * gap, x);
}

void expect_split(float master) {
  const SplitMaster halves = split(master);
  EXPECT_EQ(std::bit_cast<float>(std::uint32_t{halves.weight} << 16), nearest_bf16(master))
      << master << ": " << kNearest;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(joined(halves)), std::bit_cast<std::uint32_t>(master))
      << master << ": " << kUndone;
}

TEST_F(MasterWeights, AreSplitIntoTheNearestWeightAndWhatJoinsThemAgain) {
  for (int trial = 0; trial < 200; ++trial) {
    expect_split(static_cast<float>(
        std::ldexp(random.normal(), static_cast<int>(random.between(0, 60)) - 30)));
  }
}

TEST_F(MasterWeights, TiesZeroAndTheSmallestNumbersAreSplitToo) {
  for (const std::uint32_t upper : {0x0000U, 0x0001U, 0x3F7FU, 0x3F80U, 0x3F81U, 0x7F7EU}) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      for (const std::uint32_t sign : {0U, 0x80000000U}) {
        expect_split(std::bit_cast<float>(sign | upper << 16 | lower));
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
