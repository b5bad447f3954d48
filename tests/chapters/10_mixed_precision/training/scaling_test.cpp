// Covers: chapters/10_mixed_precision/training/weight_steps.hpp

#include "chapters/10_mixed_precision/training/scaling.hpp"

#include "chapters/10_mixed_precision/training/weight_steps.hpp"
#include "common/optim/adamw.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(DynamicLossScaler, SaysWhatTheGradientsAreAndMovesItsScale) {
  const auto scaler = dynamic_loss_scaler({.initial = 1024, .growth_interval = 2});
  EXPECT_EQ(scaler->scale(), 1024);
  const train::ScaledGradients good = scaler->step_ends(512.0);
  EXPECT_FALSE(good.overflow);
  EXPECT_EQ(good.norm, 0.5);
  EXPECT_EQ(good.factor, 1.0 / 1024);
  EXPECT_TRUE(scaler->step_ends(kInfinity).overflow);
  EXPECT_EQ(scaler->scale(), 512);
  EXPECT_EQ(scaler->skipped(), 1U);
}

TEST(DynamicLossScaler, EndsWhenNoScaleHelps) {
  const auto scaler = dynamic_loss_scaler({.initial = 4 * kLeastScale});
  static_cast<void>(scaler->step_ends(kInfinity));
  static_cast<void>(scaler->step_ends(kInfinity));
  EXPECT_THAT(message_of<NumericError>([&] { static_cast<void>(scaler->step_ends(kInfinity)); }),
              HasSubstr("overflow even with a loss scale"));
}

TEST(DynamicLossScaler, ADamagedStateIsRefusedInWords) {
  const auto scaler = dynamic_loss_scaler({.initial = 1024});
  for (const std::vector<double>& damaged : std::vector<std::vector<double>>{{},
                                                                             {1024, 0},
                                                                             {0, 0, 0},
                                                                             {-8, 0, 0},
                                                                             {kInfinity, 0, 0},
                                                                             {std::nan(""), 0, 0},
                                                                             {8, 0.5, 0},
                                                                             {8, 0, -1},
                                                                             {8, 0, 1e300}}) {
    EXPECT_THAT(message_of<ConfigError>([&] { scaler->restore(damaged); }),
                HasSubstr("the checkpoint's loss scale is ["));
  }
  EXPECT_EQ(scaler->scale(), 1024);
}

TEST(ConstantLossScaler, StaysAndSkips) {
  const auto scaler = constant_loss_scaler(8);
  EXPECT_TRUE(scaler->step_ends(kInfinity).overflow);
  EXPECT_EQ(scaler->scale(), 8);
  EXPECT_EQ(scaler->step_ends(16.0).norm, 2.0);
  EXPECT_EQ(scaler->skipped(), 1U);
  const auto next = constant_loss_scaler(8);
  next->restore(scaler->state());
  EXPECT_EQ(next->skipped(), 1U);
}

class WeightSteps : public ultra::test::RandomTest {
 protected:
  /// A parameter of 6 x 5, or a part of it.
  nn::Parameter parameter(std::vector<Range> shard = {}) {
    return {{.name = "w",
             .global_shape = {6, 5},
             .shard = std::move(shard),
             .initializer = {.standard_deviation = 1.0}},
            device,
            nn::Precision(DType::kBF16),
            seed};
  }

  /// The weights of a piece after some steps, each by the same amount.
  std::vector<double> stepped(const nn::Parameter& owner, const Range& elements,
                              Rounding rounding) {
    const Tensor weights = owner.value().view({owner.count()}).slice(0, elements).clone();
    const auto adds = [](const Tensor& value, const Tensor&, const Tensor&, const Tensor&,
                         const ops::AdamWStep&) {
      for (float& w : value.span<float>()) w += 0.001F;
    };
    const optim::Rule rule = weight_rule({.rounding = rounding, .seed = 3, .figures = {}})(
        optim::adamw({}, adds), {{.parameter = &owner, .elements = elements}});
    const Tensor zeros = Tensor::zeros(device, {elements.size()}, DType::kF32);
    for (int i = 1; i <= 4; ++i) {
      rule->apply(0, {.value = weights, .grad = zeros, .decay = false}, std::vector{zeros, zeros},
                  {.learning_rate = 1.0, .step = i});
    }
    return cast(weights, DType::kF32).to_vector();
  }
};

// A rank rounds its elements as every other rank would, whichever of them it has.
TEST_F(WeightSteps, ChanceDependsOnTheElementAlone) {
  const nn::Parameter whole = parameter();
  const std::vector<double> all = stepped(whole, {0, 30}, Rounding::kStochastic);
  const std::vector<double> part = stepped(whole, {7, 19}, Rounding::kStochastic);
  EXPECT_EQ(part, std::vector<double>(all.begin() + 7, all.begin() + 19));
  const nn::Parameter columns = parameter({{0, 6}, {2, 4}});
  const std::vector<double> of_columns = stepped(columns, {0, 12}, Rounding::kStochastic);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t column = 0; column < 2; ++column) {
      EXPECT_EQ(of_columns[2 * row + column], all[5 * row + 2 + column]);
    }
  }
}

TEST_F(WeightSteps, FiguresCountWhatIsLost) {
  const auto figures = std::make_shared<UpdateFigures>();
  const Tensor before = Tensor::empty(device, {4}, DType::kBF16);
  before.fill(1.0);
  const Tensor wide = Tensor::empty(device, {4}, DType::kF32);
  const std::vector<float> meant = {1.0F, 1.0F + 1.0F / 1024, 1.0F + 1.0F / 64, 0.5F};
  std::ranges::copy(meant, wide.span<float>().begin());
  figures->count_update(before, wide, cast(wide, DType::kBF16));
  const Tensor gradient = Tensor::zeros(device, {3}, DType::kF32);
  gradient.span<float>()[0] = 0.75F;  // 2^-1
  figures->count_gradient(gradient);
  const std::vector<double> counts = figures->take();
  const std::size_t n = counts.size();
  EXPECT_EQ(counts[n - 1], 1) << "lost";
  EXPECT_EQ(counts[n - 2], 3) << "that should have moved";
  EXPECT_EQ(counts[n - 3], 2) << "zeros";
  EXPECT_EQ(counts[n - 4], 3) << "gradients";
  EXPECT_EQ(counts[static_cast<std::size_t>(-1 - kLowestExponent)], 1);
  EXPECT_EQ(figures->take()[n - 1], 0) << "counted anew";
}

}  // namespace
}  // namespace ultra::mixed_precision
