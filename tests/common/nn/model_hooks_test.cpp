// The seams of a whole model: gradients that are ready, block hooks, deferred weight gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "common/nn/model.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/model.hpp"

namespace ultra::nn {
namespace {

using ::testing::Each;

class ModelHooksTest : public test::RandomTest {
 protected:
  [[nodiscard]] test::MicroBatch draw_batch() {
    return test::random_micro_batch(random, device, config, 2,
                                    random.between(1, config.max_seq_len));
  }

  /// The block that a parameter belongs to: embedding 0, block i at i + 1, norm and head last.
  [[nodiscard]] std::size_t depth_of(const Parameter& p) const {
    const std::string prefix = "model.layers.";
    if (p.name().rfind(prefix, 0) == 0) return std::stoul(p.name().substr(prefix.size())) + 1;
    return p.name() == "model.embed_tokens.weight" ? 0 : config.num_layers + 1;
  }

  ModelConfig config = test::random_model_config(random);
  DenseFactory factory;
  Model model{config, device, DType::kF64, seed, factory};
};

TEST_F(ModelHooksTest, EveryGradientIsReadyOncePerMicroBatchInBackwardOrder) {
  std::map<std::string, int> calls;
  std::vector<std::size_t> depths;
  for (Parameter* p : model.parameters()) {
    p->on_grad_ready([&](Parameter& ready) {
      ++calls[ready.name()];
      depths.push_back(depth_of(ready));
    });
  }
  for (int micro_batch = 1; micro_batch <= 3; ++micro_batch) {
    depths.clear();
    test::run_step(model, draw_batch(), 1.0);
    EXPECT_TRUE(std::is_sorted(depths.rbegin(), depths.rend()));
    EXPECT_EQ(depths.size(), model.parameters().size());
    for (const auto& [name, count] : calls) EXPECT_EQ(count, micro_batch) << name;
  }
  EXPECT_EQ(calls.size(), model.parameters().size());
}

TEST_F(ModelHooksTest, AWeightIsReadBeforeItsGradientIsMade) {
  const test::MicroBatch batch = draw_batch();
  const double loss = test::run_step(model, batch, 1.0);
  const std::vector<Tensor> expected = test::gradients_of(model);
  model.drop_grads();
  for (Parameter* p : model.parameters()) {
    p->on_grad_ready([](Parameter& ready) { ready.value().fill(1e9); });
  }
  EXPECT_EQ(test::run_step(model, batch, 1.0), loss);
  const std::vector<Tensor> found = test::gradients_of(model);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(test::all_equal(found[i], expected[i])) << model.parameters()[i]->name();
  }
}

TEST_F(ModelHooksTest, ABlockHasTheParametersOfItsName) {
  std::vector<Parameter*> of_blocks;
  for (std::size_t layer = 0; layer < config.num_layers; ++layer) {
    for (Parameter* p : model.block_parameters(layer)) {
      EXPECT_EQ(depth_of(*p), layer + 1) << p->name();
      of_blocks.push_back(p);
    }
  }
  std::vector<Parameter*> expected;
  for (Parameter* p : model.parameters()) {
    if (depth_of(*p) > 0 && depth_of(*p) <= config.num_layers) expected.push_back(p);
  }
  EXPECT_EQ(of_blocks, expected);
  EXPECT_THROW(static_cast<void>(model.block_parameters(config.num_layers)), InternalError);

  config.num_layers = 3;
  const Model stage(config, device, DType::kF64, seed, factory,
                    {.layers = {1, 3}, .has_embedding = false, .has_head = true});
  EXPECT_EQ(depth_of(*stage.block_parameters(2).front()), 3U) << "counted in the whole model";
  EXPECT_THROW(static_cast<void>(stage.block_parameters(0)), InternalError);
}

TEST_F(ModelHooksTest, AReadyGradientIsFinal) {
  std::map<const Parameter*, Tensor> seen;
  for (Parameter* p : model.parameters()) {
    p->on_grad_ready([&](Parameter& ready) { seen[&ready] = ready.grad().clone(); });
  }
  test::run_step(model, draw_batch(), 1.0);
  for (const Parameter* p : model.parameters()) {
    EXPECT_TRUE(test::all_equal(p->grad(), seen.at(p))) << p->name();
  }
}

TEST_F(ModelHooksTest, BlockHooksSurroundEachBlockForwardAndBack) {
  std::vector<std::string> calls;
  const auto record = [&](const std::string& what) {
    return [&calls, what](std::size_t layer) { calls.push_back(what + std::to_string(layer)); };
  };
  model.add_block_hooks({.before_forward = record("before forward "),
                         .after_forward = record("after forward "),
                         .before_backward = record("before backward "),
                         .after_backward = record("after backward ")});
  test::run_step(model, draw_batch(), 1.0);
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < config.num_layers; ++i) {
    expected.push_back("before forward " + std::to_string(i));
    expected.push_back("after forward " + std::to_string(i));
  }
  for (std::size_t i = config.num_layers; i-- > 0;) {
    expected.push_back("before backward " + std::to_string(i));
    expected.push_back("after backward " + std::to_string(i));
  }
  EXPECT_EQ(calls, expected);
}

TEST_F(ModelHooksTest, AHookMayBringTheWeightsOfItsBlockIn) {
  const test::MicroBatch batch = draw_batch();
  const double expected = test::run_step(model, batch, 1.0);
  std::map<Parameter*, Tensor> away;
  for (Parameter* p : model.parameters()) {
    if (depth_of(*p) == 0 || depth_of(*p) > config.num_layers) continue;
    away[p] = p->value();
    p->drop_value();
  }
  const auto bring = [&](std::size_t layer) {
    for (auto& [p, value] : away) {
      if (depth_of(*p) == layer + 1) p->set_value(value);
    }
  };
  const auto drop = [&](std::size_t layer) {
    for (auto& [p, value] : away) {
      if (depth_of(*p) == layer + 1) p->drop_value();
    }
  };
  model.add_block_hooks({.before_forward = bring,
                         .after_forward = drop,
                         .before_backward = bring,
                         .after_backward = drop});
  EXPECT_EQ(test::run_step(model, batch, 1.0), expected);
}

TEST_F(ModelHooksTest, DeferredWeightGradientsEqualImmediateOnesBitwise) {
  const std::vector<test::MicroBatch> batches = {draw_batch(), draw_batch()};
  for (const auto& batch : batches) test::run_step(model, batch, 4.0);
  const std::vector<Tensor> expected = test::gradients_of(model);
  model.drop_grads();

  DeferredGradients queue;
  model.defer_grads_to(&queue);
  std::map<std::string, int> ready;
  for (Parameter* p : model.parameters()) {
    p->on_grad_ready([&](Parameter& parameter) { ++ready[parameter.name()]; });
  }
  for (const auto& batch : batches) test::run_step(model, batch, 4.0);
  EXPECT_EQ(queue.size(), 2 * model.parameters().size());
  EXPECT_TRUE(ready.empty());
  for (const Parameter* p : model.parameters()) EXPECT_FALSE(p->grad().defined()) << p->name();

  queue.run();
  model.defer_grads_to(nullptr);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Parameter& p = *model.parameters()[i];
    EXPECT_TRUE(test::all_equal(p.grad(), expected[i])) << p.name();
    EXPECT_EQ(ready[p.name()], 2) << p.name();
  }
}

TEST_F(ModelHooksTest, DeferralDoesNotChangeWhatAStagePassesOn) {
  const StageSpec stage{
      .layers = {0, config.num_layers}, .has_embedding = false, .has_head = false};
  Model middle(config, device, DType::kF64, seed, factory, stage);
  const Tensor x = random.tensor(device, {1, config.max_seq_len, config.hidden_size}, DType::kF64);
  const Tensor d_y = random.tensor(device, x.shape(), DType::kF64);
  Saved saved;
  static_cast<void>(middle.forward(x, saved));
  const Tensor expected = middle.backward(d_y, saved);
  DeferredGradients queue;
  middle.defer_grads_to(&queue);
  static_cast<void>(middle.forward(x, saved));
  EXPECT_TRUE(test::all_equal(middle.backward(d_y, saved), expected));
  queue.run();
}

}  // namespace
}  // namespace ultra::nn
