#include "common/nn/layers/embedding_layer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/ops/embedding.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/compare.hpp"

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

}  // namespace
}  // namespace ultra::nn
