// Covers: common/nn/precision.hpp
//
// What a model keeps and computes when its weights and activations take two bytes.
#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::nn {
namespace {

using enum MemoryCategory;

/// Weights and activations in one type of two bytes.
Precision stored_in(DType dtype, DType gradients) {
  Precision precision(dtype);
  precision.gradients = gradients;
  precision.optimizer = DType::kF32;
  return precision;
}

/// The square root of the sum of squares of all gradients, or of their differences.
double norm(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      const double difference = a[i][j] - (b.empty() ? 0.0 : b[i][j]);
      sum += difference * difference;
    }
  }
  return std::sqrt(sum);
}

class ModelPrecisionTest : public test::RandomTest {
 protected:
  struct Outcome {
    double loss = 0;
    std::vector<std::vector<double>> gradients;
  };

  Outcome run(Model& trained) {
    Outcome outcome;
    trained.drop_grads();
    outcome.loss = add_pass(trained);
    for (const Parameter* p : trained.parameters()) {
      outcome.gradients.push_back(p->grad().to_vector());
    }
    return outcome;
  }

  /// One micro-batch; its gradients are added. The loss.
  double add_pass(Model& trained) {
    return test::run_step(trained, batch, count_of(batch.tokens.numel()));
  }

  ModelConfig config = test::random_model_config(random);
  DenseFactory factory;
  DType dtype = random.pick({DType::kBF16, DType::kF16});
  DType gradients = random.pick({dtype, DType::kF32});
  Model model{config, device, stored_in(dtype, gradients), seed, factory};
  test::MicroBatch batch =
      test::random_micro_batch(random, device, config, 2, random.between(1, config.max_seq_len));
};

TEST_F(ModelPrecisionTest, WeightsTakeTwoBytesAndGradientsTheirOwn) {
  const auto now = [&](MemoryCategory category) { return device.memory().current()[category]; };
  EXPECT_EQ(now(kParameters), 2 * model.parameter_count());
  run(model);
  EXPECT_EQ(now(kGradients), size_of(gradients) * model.parameter_count());
  for (const Parameter* p : model.parameters()) {
    EXPECT_EQ(p->value().dtype(), dtype);
    EXPECT_EQ(p->grad().dtype(), gradients);
  }
}

TEST_F(ModelPrecisionTest, ActivationsTakeTwoBytesAndStatisticsFour) {
  Saved saved;
  static_cast<void>(model.forward(batch.tokens, saved));
  saved.for_each([&](const std::string& path, const Tensor& kept) {
    const bool is_statistic = path.ends_with("reciprocal_rms") || path.ends_with("log_sum_exp");
    const DType expected = is_statistic               ? DType::kF32
                           : path.ends_with("tokens") ? DType::kI32
                                                      : dtype;
    EXPECT_EQ(kept.dtype(), expected) << path;
  });
}

TEST_F(ModelPrecisionTest, PassesAreThoseOfTheSameWeightsInF64UpToRoundings) {
  Model exact(config, device, DType::kF64, seed, factory);
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    cast_into(exact.parameters()[i]->value(), model.parameters()[i]->value());
  }
  const Outcome expected = run(exact);
  const Outcome actual = run(model);
  // Roundings on the way through a block and back: 10 and 20 tensors are stored; 6 at the ends.
  const double roundings = 30.0 * count_of(config.num_layers) + 6.0;
  const double relative = rounding_bound(dtype, 0.5 * roundings, 1.0);
  EXPECT_NEAR(actual.loss, expected.loss, relative * expected.loss);
  EXPECT_LE(norm(actual.gradients, expected.gradients), relative * norm(expected.gradients, {}));
}

TEST_F(ModelPrecisionTest, ASecondMicroBatchAddsToTheGradients) {
  const Outcome once = run(model);
  add_pass(model);
  for (std::size_t i = 0; i < once.gradients.size(); ++i) {
    std::vector<double> doubled = once.gradients[i];
    for (double& value : doubled) value *= 2.0;
    // Each addition rounds its sum; those of one pass may be spread over several.
    const double largest = test::largest_magnitude(doubled);
    EXPECT_TRUE(all_near(model.parameters()[i]->grad(), doubled,
                         rounding_bound(gradients, 1.0, largest) +
                             rounding_bound(DType::kF32, count_of(batch.tokens.numel()), largest)));
  }
}

TEST_F(ModelPrecisionTest, PassesNeedWeightsOfTheirType) {
  Precision mixed(DType::kBF16);
  mixed.parameters = DType::kF32;
  EXPECT_THAT(message_of<ConfigError>([&] { Model(config, device, mixed, seed, factory); }),
              HasSubstr("passes in bf16 need weights in bf16, found weights in f32"));
}

}  // namespace
}  // namespace ultra::nn
