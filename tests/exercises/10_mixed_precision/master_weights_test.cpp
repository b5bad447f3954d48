// Contract of exercise 10.4: updates with and without master weights.
#include "chapters/10_mixed_precision/master_weights.hpp"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "tests/support/random.hpp"

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
constexpr const char* kLost =
    "Hint: an update of less than half the last place of a weight is rounded away.";

class MasterWeights : public ultra::test::RandomTest {
 protected:
  Tensor zeros(std::size_t n) { return Tensor::zeros(device, {n}, DType::kF32); }
  Tensor filled(std::size_t n, double value, DType dtype = DType::kF32) {
    Tensor x = Tensor::empty(device, {n}, dtype);
    x.fill(value);
    return x;
  }
  static std::vector<float> values(const Tensor& x) {
    const Tensor wide = cast(x, DType::kF32);
    const std::span<const float> numbers = wide.span<float>();
    return {numbers.begin(), numbers.end()};
  }
  DType half() { return random.pick({DType::kBF16, DType::kF16}); }

  const ops::AdamWStep constants{.learning_rate = 1e-3, .gradient_scale = 0.5, .step = 1};
};

/// Subtracts the gradient, scaled, and checks that the types are one.
void plain_update(const Tensor& value, const Tensor& grad, const Tensor& first, const Tensor&,
                  const ops::AdamWStep& constants) {
  ASSERT_EQ(value.dtype(), DType::kF32) << kTypes;
  ASSERT_EQ(grad.dtype(), DType::kF32) << kTypes;
  const auto scale = static_cast<float>(constants.gradient_scale);
  for (std::size_t i = 0; i < value.numel(); ++i) {
    value.span<float>()[i] -= scale * grad.span<float>()[i];
    first.span<float>()[i] += 1.0F;
  }
}

TEST_F(MasterWeights, MasterWeightsAreUpdatedAndWeightsRoundedFromThem) {
  for (int trial = 0; trial < 8; ++trial) {
    const std::size_t n = random.between(1, 40);
    const DType dtype = half();
    const Tensor master = random.tensor(device, {n}, DType::kF32);
    const Tensor gradient =
        cast(random.tensor(device, {n}, DType::kF32), random.pick({DType::kF32, dtype}));
    const WeightUpdate update{.weights = filled(n, 77.0, dtype),
                              .gradient = gradient,
                              .moments = {.first = zeros(n), .second = zeros(n)}};
    std::vector<float> expected = values(master);
    const std::vector<float> g = values(gradient);
    for (std::size_t i = 0; i < n; ++i) expected[i] -= 0.5F * g[i];
    update_with_master(update, master, plain_update, constants);
    EXPECT_EQ(values(master), expected) << kMaster << " " << kNeverRead;
    const Tensor rounded = cast(master, dtype);
    EXPECT_EQ(values(update.weights), values(rounded)) << kRounded;
    EXPECT_EQ(values(update.moments.first), std::vector<float>(n, 1.0F))
        << "Hint: one call of the update for one step, on the moments themselves.";
  }
}

TEST_F(MasterWeights, SmallUpdatesAddUpInThem) {
  const Tensor master = filled(3, 1.0);
  const WeightUpdate update{.weights = filled(3, 1.0, DType::kBF16),
                            .gradient = filled(3, -1.0 / 512),
                            .moments = {.first = zeros(3), .second = zeros(3)}};
  for (int step = 0; step < 8; ++step) {
    update_with_master(update, master, plain_update, constants);
  }
  EXPECT_EQ(values(master), std::vector<float>(3, 1.0F + 8.0F / 1024)) << kMaster;
  EXPECT_EQ(values(update.weights), std::vector<float>(3, 1.0F + 1.0F / 128)) << kAddUp;
}

TEST_F(MasterWeights, WithoutThemSmallUpdatesAreLost) {
  const WeightUpdate update{.weights = filled(3, 1.0, DType::kBF16),
                            .gradient = filled(3, -1.0 / 512, DType::kBF16),
                            .moments = {.first = zeros(3), .second = zeros(3)}};
  for (int step = 0; step < 8; ++step) {
    const Tensor wide = update_without_master(update, plain_update, constants);
    EXPECT_EQ(values(wide), std::vector<float>(3, 1.0F + 1.0F / 1024)) << kWide;
  }
  EXPECT_EQ(values(update.weights), std::vector<float>(3, 1.0F)) << kLost;
  EXPECT_EQ(values(update.moments.first), std::vector<float>(3, 8.0F))
      << "Hint: the moments are f32 all the same.";
}

TEST_F(MasterWeights, WithoutThemLargeUpdatesAreRounded) {
  for (int trial = 0; trial < 8; ++trial) {
    const std::size_t n = random.between(1, 40);
    const DType dtype = half();
    const WeightUpdate update{.weights = cast(random.tensor(device, {n}, DType::kF32), dtype),
                              .gradient = random.tensor(device, {n}, DType::kF32),
                              .moments = {.first = zeros(n), .second = zeros(n)}};
    std::vector<float> expected = values(update.weights);
    const std::vector<float> g = values(update.gradient);
    for (std::size_t i = 0; i < n; ++i) expected[i] -= 0.5F * g[i];
    const Tensor wide = update_without_master(update, plain_update, constants);
    EXPECT_EQ(values(wide), expected) << kWide;
    EXPECT_EQ(values(update.weights), values(cast(wide, dtype)))
        << "Hint: what is kept is rounded to the weights' type.";
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
