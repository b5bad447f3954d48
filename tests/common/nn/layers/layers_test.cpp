// The small layers, each against the operations that it is made of.
// Covers: common/nn/layers/embedding_layer.hpp
// Covers: common/nn/layers/norm.hpp
// Covers: common/nn/layers/feed_forward.hpp

#include "common/nn/layers/embedding_layer.hpp"
#include "common/nn/layers/feed_forward.hpp"
#include "common/nn/layers/norm.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/ops/embedding.hpp"
#include "common/ops/rms_norm.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

class EmbeddingLayerTest : public LayerTest {};

TEST_F(EmbeddingLayerTest, LooksUpItsTable) {
  DenseEmbedding layer(context());
  const Parameter& table = *layer.parameters().at(0);
  EXPECT_EQ(table.name(), "model.embed_tokens.weight");
  EXPECT_EQ(table.global_shape(), (Shape{config.vocab_size, config.hidden_size}));
  const Tensor tokens = random.tokens(device, {2, 5}, config.vocab_size);
  Saved saved;
  EXPECT_TRUE(test::all_equal(layer.forward(tokens, saved), ops::embedding(table.value(), tokens)));
  EXPECT_TRUE(saved.get("tokens").shares_storage(tokens));
}

TEST_F(EmbeddingLayerTest, TheGradientMatchesFiniteDifferencesAndAccumulates) {
  DenseEmbedding layer(context());
  Parameter& table = *layer.parameters().at(0);
  const Tensor tokens = random.tokens(device, {2, 5}, config.vocab_size);
  const Tensor d_y = random.tensor(device, {2, 5, config.hidden_size}, DType::kF64);
  Saved saved;
  static_cast<void>(layer.forward(tokens, saved));
  layer.backward(d_y, saved);
  EXPECT_TRUE(saved.empty());
  const Tensor once = table.grad().clone();
  const auto f = [&] {
    Saved discard(Saved::Mode::kDiscard);
    return test::inner_product(d_y, layer.forward(tokens, discard));
  };
  EXPECT_TRUE(test::gradients_match(random, f, {{"table", table.value(), once}}));

  static_cast<void>(layer.forward(tokens, saved));
  layer.backward(d_y, saved);
  std::vector<double> doubled = once.to_vector();
  for (double& value : doubled) value *= 2.0;
  EXPECT_TRUE(test::all_near(
      table.grad(), doubled,
      test::rounding_bound(DType::kF64, 10, 20.0 * test::largest_magnitude(d_y.to_vector()))));
}

class NormTest : public LayerTest {};

TEST_F(NormTest, StartsWithAWeightOfOnes) {
  RmsNorm norm(context(), {"model.norm.weight"});
  ASSERT_EQ(norm.parameters().size(), 1U);
  EXPECT_EQ(norm.parameters()[0]->name(), "model.norm.weight");
  EXPECT_EQ(norm.parameters()[0]->value().shape(), (Shape{config.hidden_size}));
  EXPECT_THAT(norm.parameters()[0]->value().to_vector(), ::testing::Each(1.0));
}

TEST_F(NormTest, IsTheOperationWithTheModelsEpsilon) {
  config.norm_epsilon = 0.25;
  RmsNorm norm(context(), {"w"});
  const Tensor x = hidden_states();
  Saved saved;
  const Tensor y = norm.forward(x, saved);
  const auto expected = ops::rms_norm(x, norm.parameters()[0]->value(), 0.25);
  EXPECT_TRUE(test::all_equal(y, expected.y));
  EXPECT_TRUE(saved.get("input").shares_storage(x));
  EXPECT_TRUE(test::all_equal(saved.get("reciprocal_rms"), expected.reciprocal_rms));
}

/// What a layer has said can be made again is the tensor under that path, bit for bit.
void expect_remakes(Layer& layer, const Tensor& x, const std::string& path) {
  Saved saved(Saved::Mode::kRemake);
  const Tensor y = layer.forward(x, saved);
  ASSERT_EQ(saved.remakeables().size(), 1U);
  const Remakeable& found = saved.remakeables().front();
  Tensor expected = y;
  saved.for_each([&](const std::string& each, const Tensor& tensor) {
    if (each == path) expected = tensor;
  });
  EXPECT_TRUE(found.tensor.shares_storage(expected));
  const Tensor again = found.make();
  EXPECT_FALSE(again.shares_storage(expected));
  EXPECT_TRUE(test::all_equal(again, expected));
}

TEST_F(NormTest, SaysHowItsResultIsMadeAgain) {
  RmsNorm norm(context(), {"w"});
  expect_remakes(norm, hidden_states(), "");
}

TEST_F(NormTest, GradientsMatchFiniteDifferences) {
  config.norm_epsilon = 0.1;
  RmsNorm norm(context(), {"w"});
  check_layer(norm, hidden_states());
}

class FeedForwardTest : public LayerTest {};

TEST_F(FeedForwardTest, OwnsGateUpAndDown) {
  SwigluFeedForward layer(context(), 3);
  const std::vector<Parameter*> parameters = layer.parameters();
  ASSERT_EQ(parameters.size(), 3U);
  EXPECT_EQ(parameters[0]->name(), "model.layers.3.mlp.gate_proj.weight");
  EXPECT_EQ(parameters[1]->name(), "model.layers.3.mlp.up_proj.weight");
  EXPECT_EQ(parameters[2]->name(), "model.layers.3.mlp.down_proj.weight");
  EXPECT_EQ(parameters[0]->global_shape(), (Shape{config.ffn_hidden_size, config.hidden_size}));
  EXPECT_EQ(parameters[2]->global_shape(), (Shape{config.hidden_size, config.ffn_hidden_size}));
}

TEST_F(FeedForwardTest, SavesWhatItsHeaderNames) {
  SwigluFeedForward layer(context(), 0);
  Saved saved;
  static_cast<void>(layer.forward(hidden_states(), saved));
  std::vector<std::string> paths;
  saved.for_each([&](const std::string& path, const Tensor&) { paths.push_back(path); });
  EXPECT_THAT(paths, ::testing::UnorderedElementsAre("gate", "up", "gate_up/input", "down/input"));
}

TEST_F(FeedForwardTest, SaysHowTheProductIsMadeAgain) {
  SwigluFeedForward layer(context(), 0);
  expect_remakes(layer, hidden_states(), "down/input");
}

TEST_F(FeedForwardTest, GradientsMatchFiniteDifferences) {
  SwigluFeedForward layer(context(), 0);
  check_layer(layer, hidden_states());
}

class LossLayerTest : public LayerTest {};

TEST_F(LossLayerTest, ItsGradientTakesTheLogitsPlace) {
  const Tensor logits = random.tensor(device, {2, 3, 7}, DType::kF64);
  const Tensor targets = random.tokens(device, {2, 3}, 7);
  const Tensor expected = logits.clone();
  const double expected_loss = ops::cross_entropy_into_gradient(expected, targets, 11.0);
  const std::unique_ptr<LossLayer> loss = factory.loss(context());
  Saved saved;
  EXPECT_EQ(loss->forward(logits, targets, 11.0, saved), expected_loss);
  EXPECT_EQ(logits.category(), MemoryCategory::kActivations);
  const Tensor d_logits = loss->backward(saved);
  EXPECT_TRUE(d_logits.shares_storage(logits));
  EXPECT_TRUE(test::all_equal(d_logits, expected));
  EXPECT_TRUE(saved.empty());
  EXPECT_THROW(static_cast<void>(loss->backward(saved)), InternalError);
}

}  // namespace
}  // namespace ultra::nn
