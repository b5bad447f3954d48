// Parameters that are not trained: which a pattern means, what is refused, and that no work is done for
// their gradients.
//
// Covers: common/train/weights/frozen_weights.hpp
// Covers: common/train/gradients/owned_piece.hpp
// Covers: common/train/weights/master_weights.hpp

#include "common/train/weights/frozen_weights.hpp"
#include "common/train/weights/master_weights.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

using Patterns = std::vector<std::string>;

std::vector<nn::NamedShape> four_names() {
  std::vector<nn::NamedShape> named;
  for (const char* name : {"model.embed_tokens.weight", "model.layers.1.mlp.up_proj.weight",
                           "model.layers.11.mlp.up_proj.weight", "lm_head.weight"}) {
    named.push_back({.name = name, .shape = Shape({2, 3})});
  }
  return named;
}

std::string refusal_of(const Patterns& patterns) {
  try {
    expect_to_train(patterns, four_names());
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(FrozenWeights, PatternsOfSomethingAreTaken) {
  for (const Patterns& patterns :
       {Patterns{}, {"model.layers.1."}, {"up_proj"}, {"embed_tokens", "lm_head"}, {"model."}}) {
    EXPECT_EQ(refusal_of(patterns), "");
  }
}

TEST(FrozenWeights, APatternOfNothingIsRefusedWithNamesThatThereAre) {
  EXPECT_THAT(refusal_of({"lm_head", "embed_token."}),
              AllOf(HasSubstr("'embed_token.' is in no parameter's name"),
                    HasSubstr("from model.embed_tokens.weight to lm_head.weight")));
}

TEST(FrozenWeights, FreezingEverythingIsRefused) {
  EXPECT_THAT(refusal_of({"model.", "lm_head"}),
              HasSubstr("--freeze model.,lm_head freezes all 4 parameters"));
}

TEST(FrozenWeights, AFrozenParameterHasNoGradientAndRunsNoHook) {
  nn::Parameter parameter(
      {.name = "model.layers.0.a", .global_shape = Shape({2}), .shard = {}, .initializer = {}},
      Device::cpu(), DType::kF64, 1);
  int hooks = 0;
  int works = 0;
  const nn::HookHandle handle = parameter.on_grad_ready([&](nn::Parameter&) { ++hooks; });
  const auto add = [&] {
    parameter.add_grad([&](const Tensor& grad, ops::Write) {
      grad.fill(1.0);
      ++works;
    });
  };
  add();
  parameter.drop_grad();
  parameter.freeze();
  add();
  nn::DeferredGradients queue;
  parameter.defer_grads_to(&queue);
  add();
  queue.run();
  EXPECT_FALSE(parameter.grad().defined());
  EXPECT_EQ(hooks, 1);
  EXPECT_EQ(works, 1);
}

class MasterWeightsTest : public ultra::test::RandomTest {
 protected:
  nn::Parameter parameter(const nn::ParameterTypes& types) {
    return {{.name = "w",
             .global_shape = {6, 5},
             .shard = {},
             .initializer = {.standard_deviation = 1.0}},
            device,
            types,
            seed};
  }
  static nn::Precision mixed() {
    nn::Precision precision(DType::kBF16);
    precision.optimizer = DType::kF32;
    return precision;
  }
  Tensor flat(const nn::Parameter& parameter, const Range& elements) {
    return parameter.value().view({parameter.count()}).slice(0, elements);
  }
};

// They begin as the weights of a training in f32, of which those of two bytes are the roundings.
TEST_F(MasterWeightsTest, BeginWithTheValuesOfF32) {
  const nn::Parameter half = parameter(mixed());
  const nn::Parameter full = parameter(DType::kF32);
  const MasterWeights masters(std::vector<OwnedPiece>{{&half, {3, 17}}}, mixed());
  EXPECT_EQ(masters.of(0).to_vector(), flat(full, {3, 17}).to_vector());
  EXPECT_EQ(cast(masters.of(0), DType::kBF16).to_vector(), flat(half, {3, 17}).to_vector());
}

TEST_F(MasterWeightsTest, ThereAreNoneOfWeightsThatAreWideEnough) {
  const nn::Parameter full = parameter(DType::kF32);
  EXPECT_FALSE(MasterWeights(std::vector<OwnedPiece>{{&full, {0, 30}}}, mixed()).of(0).defined());
  const nn::Parameter half = parameter(DType::kBF16);
  EXPECT_FALSE(
      MasterWeights(std::vector<OwnedPiece>{{&half, {0, 30}}}, DType::kBF16).of(0).defined());
}

TEST_F(MasterWeightsTest, WhatIsWrittenIsReadAndRounded) {
  const nn::Parameter half = parameter(mixed());
  const MasterWeights masters(std::vector<OwnedPiece>{{&half, {0, 30}}}, mixed());
  const Tensor weights = flat(half, {0, 30});
  const Tensor written = random.tensor(device, {30}, DType::kF32);
  masters.write(0, weights, written);
  const Tensor read = Tensor::empty(device, {30}, DType::kF32);
  masters.read(0, weights, read);
  EXPECT_EQ(read.to_vector(), written.to_vector());
  EXPECT_EQ(weights.to_vector(), cast(written, DType::kBF16).to_vector());
}

TEST_F(MasterWeightsTest, WithoutThemTheWeightsAreReadInAWiderType) {
  const nn::Parameter half = parameter(DType::kBF16);
  const MasterWeights masters(std::vector<OwnedPiece>{{&half, {0, 30}}}, DType::kBF16);
  const Tensor read = Tensor::empty(device, {30}, DType::kF32);
  masters.read(0, flat(half, {0, 30}), read);
  EXPECT_EQ(read.to_vector(), flat(half, {0, 30}).to_vector());
}

}  // namespace
}  // namespace ultra::train
