// Covers: common/train/gradients/tensor_tree.hpp

#include "common/train/gradients/gradient_norm.hpp"

#include "common/comm/run_ranks.hpp"
#include "common/gpu/streams.hpp"
#include "common/ops/sums/sum_tree.hpp"
#include "common/optim/clip.hpp"
#include "tests/common/train/run/rank_frame.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::train {
namespace {

class GradientNorm : public ultra::test::RandomTest {
 protected:
  std::unique_ptr<nn::Model> make(const nn::StageSpec& stage) {
    auto model = std::make_unique<nn::Model>(config, device, DType::kF64, seed, factory, stage);
    for (nn::Parameter* parameter : model->parameters()) {
      // Depends on the parameter alone, not on the stage that has it.
      ultra::test::Random own(seed + std::hash<std::string>{}(parameter->name()));
      parameter->add_grad([&](const Tensor& grad, ops::Write) { own.fill(grad, 1.0); });
    }
    return model;
  }

  /// Adds the squares of a model that one rank has.
  void add_squares(nn::Model& model, std::span<double> squares) {
    run_ranks(1, [&](Communicator& world) {
      const test::RankFrame frame(options, world);
      const auto states = frame.states_of(model);
      StepSums sums(device, numbers.size());
      add_owned_squares(*states, states->updates(), numbers, sums);
      const std::vector<double> found = sums.read();
      for (std::size_t i = 0; i < numbers.size(); ++i) squares[i] += found[i];
    });
  }

  TrainOptions options = ultra::test::short_run();
  nn::ModelConfig config = [this] {
    nn::ModelConfig drawn = ultra::test::random_model_config(random);
    drawn.num_layers = 3;
    return drawn;
  }();
  nn::DenseFactory factory;
  ParameterNumbers numbers{nn::named_shapes(config, factory)};
};

TEST_F(GradientNorm, HasTheSameBitsHoweverTheModelIsCutIntoStages) {
  const auto whole = make(nn::StageSpec::whole(config));
  std::vector<double> squares(numbers.size(), 0.0);
  add_squares(*whole, squares);
  std::vector<Tensor> gradients;
  for (const nn::Parameter* parameter : whole->parameters()) {
    gradients.push_back(parameter->grad());
  }
  const double norm = optim::global_norm(gradients);
  EXPECT_NEAR(norm_of(squares), norm, 1e-12 * norm);
  for (std::size_t cut = 0; cut <= config.num_layers; ++cut) {
    std::vector<double> apart(numbers.size(), 0.0);
    add_squares(*make({.layers = {cut, config.num_layers}, .has_embedding = false}), apart);
    add_squares(*make({.layers = {0, cut}, .has_head = false}), apart);
    EXPECT_EQ(norm_of(apart), norm_of(squares)) << "stages of " << cut << " layers and the rest";
  }
}

TEST_F(GradientNorm, CountsWhatSeveralRanksHoldAtItsOwner) {
  const auto owner = make(nn::StageSpec::whole(config));
  const auto other = make(nn::StageSpec::whole(config));
  std::vector<double> alone(numbers.size(), 0.0);
  add_squares(*owner, alone);
  for (const auto& [model, index] : {std::pair{owner.get(), 0}, std::pair{other.get(), 1}}) {
    for (nn::Parameter* parameter : model->parameters()) {
      parameter->replicate({.group = "twins", .size = 2, .index = index});
    }
  }
  std::vector<double> both(numbers.size(), 0.0);
  add_squares(*owner, both);
  add_squares(*other, both);
  EXPECT_EQ(both, alone);
}

TEST(StepSums, OfTheCpuAreTheHosts) {
  const Device device = Device::cpu();
  StepSums sums(device, 2);
  sums.add_squares(1, Tensor::from<float>(device, {2}, std::vector<float>{3, 4}));
  sums.add_squares(1, Tensor::from<float>(device, {1}, std::vector<float>{1}));
  EXPECT_FALSE(sums.loss_on_device().defined());
  EXPECT_THAT(sums.read(), ElementsAre(0, 26, 0));
  sums.begin();
  EXPECT_THAT(sums.read(), Each(0));
}

TEST(StepSums, ADeviceAddsUpSeveralLosses) {
  const Device device = Device::create(DeviceKind::kEmulated);
  StepSums sums(device, 1, 2);
  sums.begin();
  sums.loss_on_device(0).fill(7);
  sums.loss_on_device(1).fill(3);
  EXPECT_THAT(sums.read(), ElementsAre(0, 7, 3));
  EXPECT_EQ(StepSums(Device::cpu(), 3, 2).read().size(), 5U);
}

TEST(StepSums, OfADeviceStayThereUntilTheyAreRead) {
  const Device device = Device::create(DeviceKind::kEmulated);
  StepSums sums(device, 2);
  sums.add_squares(0, Tensor::from<float>(device, {2}, std::vector<float>{3, 4}));
  sums.add_squares(0, Tensor::from<float>(device, {1}, std::vector<float>{1}));
  sums.loss_on_device().fill(7);
  EXPECT_EQ(device.streams().synchronizations(), 0U);
  EXPECT_THAT(sums.read(), ElementsAre(26, 0, 7));
  EXPECT_EQ(device.streams().synchronizations(), 1U);
  sums.begin();
  EXPECT_THAT(sums.read(), Each(0));
}

}  // namespace
}  // namespace ultra::train
