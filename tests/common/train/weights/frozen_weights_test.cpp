// Parameters that are not trained: which a pattern means, what is refused, and that no work is done for
// their gradients.
//
// Covers: common/train/weights/frozen_weights.hpp

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/train/weights/frozen_weights.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

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

}  // namespace
}  // namespace ultra::train
