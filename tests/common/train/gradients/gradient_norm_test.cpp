// Covers: common/train/gradients/tensor_tree.hpp
// Covers: common/train/gradients/tree_gradients.hpp

#include "common/train/gradients/gradient_norm.hpp"

#include "common/comm/run_ranks.hpp"
#include "common/gpu/streams.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/sums/sum_tree.hpp"
#include "common/optim/clip.hpp"
#include "common/train/gradients/tree_gradients.hpp"
#include "tests/common/train/run/rank_frame.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::train {
namespace {

TEST(SumOver, AddsUpNumberByNumber) {
  for (const int ranks : {1, 3}) {
    run_ranks(ranks, [&](Communicator& world) {
      std::vector<double> numbers{1.0 + world.rank(), -0.5};
      sum_over(world, numbers);
      EXPECT_EQ(numbers, (std::vector<double>{ranks == 1 ? 1.0 : 6.0, -0.5 * ranks}));
    });
  }
}

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

TEST_F(GradientNorm, NumbersParametersInTheOrderOfTheWholeModelOnEveryStage) {
  const auto whole = make(nn::StageSpec::whole(config));
  ASSERT_EQ(numbers.size(), whole->parameters().size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(numbers.of(*whole->parameters()[i]), i);
  }
  const auto stage = make({.layers = {2, 3}, .has_embedding = false});
  EXPECT_EQ(numbers.of(*stage->parameters()[0]), 1 + 2 * 9U) << "behind the table and two blocks";
  const nn::Parameter other({.name = "other", .global_shape = {1}, .shard = {}, .initializer = {}},
                            device, DType::kF64, 1);
  EXPECT_THAT(ultra::test::message_of<InternalError>([&] { static_cast<void>(numbers.of(other)); }),
              HasSubstr("the whole model has no parameter other"));
}

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

class TreeGradientsTest : public ultra::test::RandomTest {
 protected:
  /// A pass that makes gradients of all parameters, as a step tells of it.
  void pass_backward(std::size_t micro_batch, StepObserver& observer) {
    const Action action{.kind = ActionKind::kBackward, .micro_batch = micro_batch};
    observer.action_begins(action);
    for (nn::Parameter* parameter : model.parameters()) {
      parameter->add_grad([&](const Tensor& grad, ops::Write write) {
        ops::write_or_add(grad, gradient_of(*parameter, micro_batch), write);
      });
    }
    observer.action_ends(action);
  }

  /// The same numbers whenever it is asked for.
  Tensor gradient_of(const nn::Parameter& parameter, std::size_t micro_batch) const {
    ultra::test::Random own(seed + micro_batch);
    return own.tensor(Device::cpu(), parameter.shape(), DType::kF32, 1.0);
  }

  /// By the tree that the micro-batches' places give.
  Tensor by_places(const nn::Parameter& parameter, std::size_t micro_batches) const {
    const auto join = [](const Tensor& left, const Tensor& right) { return ops::add(left, right); };
    ops::NodeCounter<Tensor, decltype(join)> nodes(join);
    for (std::size_t i = 0; i < micro_batches; ++i) nodes.add(gradient_of(parameter, i));
    return nodes.take();
  }

  void expect_sums(std::size_t micro_batches) {
    for (const nn::Parameter* parameter : model.parameters()) {
      EXPECT_TRUE(ultra::test::all_equal(parameter->grad(), by_places(*parameter, micro_batches)))
          << parameter->name() << " of " << micro_batches << " micro-batches";
    }
  }

  nn::DenseFactory factory;
  nn::Model model{ultra::test::random_model_config(random), Device::cpu(), DType::kF32, 1, factory};
  std::vector<nn::Model*> chunks{&model};
};

TEST_F(TreeGradientsTest, JoinByPlaceInWhateverOrderPassesCome) {
  for (std::size_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
    const auto observer = join_gradients_by_tree(chunks, micro_batches);
    std::vector<std::size_t> order(micro_batches);
    std::iota(order.begin(), order.end(), 0);
    for (int step = 0; step < 4; ++step) {
      observer->step_begins({});
      for (const std::size_t micro_batch : order) pass_backward(micro_batch, *observer);
      expect_sums(micro_batches);
      model.drop_grads();
      std::shuffle(order.begin(), order.end(), std::mt19937_64(seed + micro_batches));
    }
  }
}

TEST_F(TreeGradientsTest, AreMadeWholeBeforeTheyAreJoined) {
  std::size_t calls = 0;
  const auto observer = join_gradients_by_tree(chunks, 4, [&](const nn::Parameter& parameter) {
    ops::scale_into(parameter.grad(), 2.0);  // exact
    ++calls;
  });
  observer->step_begins({});
  for (std::size_t i = 0; i < 4; ++i) pass_backward(i, *observer);
  EXPECT_EQ(calls, 4 * model.parameters().size());
  for (const nn::Parameter* parameter : model.parameters()) {
    ops::scale_into(parameter->grad(), 0.5);
  }
  expect_sums(4);
}

TEST_F(TreeGradientsTest, StandWhereTheirParameterHasItsGradientsFromTheFirstPassOn) {
  nn::Parameter& first = *model.parameters().front();
  const Tensor place = Tensor::empty(Device::cpu(), first.shape(), DType::kF32);
  const auto handle = first.allocate_grad_by([&] { return place; });
  const auto observer = join_gradients_by_tree(chunks, 3);
  observer->step_begins({});
  for (std::size_t i = 0; i < 3; ++i) pass_backward(i, *observer);
  EXPECT_TRUE(first.grad().shares_storage(place));
  expect_sums(3);
}

TEST_F(TreeGradientsTest, WaitInAsManyBuffersAsTheirNumberHasBits) {
  const auto observer = join_gradients_by_tree(chunks, 16);
  observer->step_begins({});
  const std::size_t before = model.device().memory().current()[MemoryCategory::kGradients];
  std::size_t most = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    pass_backward(i, *observer);
    most = std::max(most, model.device().memory().current()[MemoryCategory::kGradients] - before);
  }
  EXPECT_EQ(most, 4 * model.parameter_count() * size_of(DType::kF32));
}

TEST_F(TreeGradientsTest, AreLetAloneOnceTheObserverIsGone) {
  join_gradients_by_tree(chunks, 2).reset();
  const auto other = std::make_unique<StepObserver>();
  pass_backward(0, *other);
  EXPECT_TRUE(model.parameters().front()->grad().defined());
}

}  // namespace
}  // namespace ultra::train
