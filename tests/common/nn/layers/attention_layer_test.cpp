// Covers: common/nn/token_places.hpp
#include "common/nn/layers/attention_layer.hpp"

#include <map>

#include "common/ops/elementwise.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

class AttentionLayerTest : public LayerTest {};

TEST_F(AttentionLayerTest, GradientsMatchFiniteDifferences) {
  SelfAttention layer(context(), 0);
  check_layer(layer, hidden_states());
}

// What came after the plain Llama: biases, norms of heads, heads of a width of their own.
TEST_F(AttentionLayerTest, VariantsMatchFiniteDifferences) {
  for (const bool has_bias : {false, true}) {
    config.head_size = 2 * random.between(1, 5);
    config.qkv_bias = has_bias;
    config.qk_norm = !has_bias;
    config.sliding_window = random.between(0, 3);
    SelfAttention layer(context(), 0);
    check_layer(layer, hidden_states());
  }
}

TEST_F(AttentionLayerTest, VariantsSayWhatTheyOwn) {
  const auto shapes = [&] {
    SelfAttention layer(context(), 2);
    std::map<std::string, Shape> found;
    for (const Parameter* p : layer.parameters()) {
      found.emplace(p->name().substr(std::string("model.layers.2.self_attn.").size()), p->shape());
    }
    return found;
  };
  config.head_size = 6;
  const std::size_t query = 6 * config.num_heads;
  const std::size_t key = 6 * config.num_kv_heads;
  std::map<std::string, Shape> expected = {{"q_proj.weight", {query, config.hidden_size}},
                                           {"k_proj.weight", {key, config.hidden_size}},
                                           {"v_proj.weight", {key, config.hidden_size}},
                                           {"o_proj.weight", {config.hidden_size, query}}};
  EXPECT_EQ(shapes(), expected);
  config.qk_norm = true;
  auto normed = expected;
  normed.insert({{"q_norm.weight", {6}}, {"k_norm.weight", {6}}});
  EXPECT_EQ(shapes(), normed);
  config.qk_norm = false;
  config.qkv_bias = true;
  expected.insert({{"q_proj.bias", {query}}, {"k_proj.bias", {key}}, {"v_proj.bias", {key}}});
  EXPECT_EQ(shapes(), expected);
}

// The norm of a head divides its length out: keys that are longer change nothing.
TEST_F(AttentionLayerTest, NormedHeadsDoNotSeeLengths) {
  config.qk_norm = true;
  config.norm_epsilon = 0;
  SelfAttention layer(context(), 0);
  randomize(layer);
  const Tensor x = hidden_states();
  Saved discard(Saved::Mode::kDiscard);
  const Tensor before = layer.forward(x, discard);
  for (const std::size_t projection : {0U, 1U}) {
    const Tensor& weight = layer.parameters()[projection]->value();
    ops::scale_into(weight, 3.0);
  }
  EXPECT_TRUE(test::all_near(layer.forward(x, discard), before, 1e-12));
}

// Its own token and the two before it.
TEST_F(AttentionLayerTest, ATokenSeesItsWindowOnly) {
  config.max_seq_len = 9;
  config.sliding_window = 3;
  SelfAttention layer(context(), 0);
  randomize(layer);
  const Tensor x = random.tensor(device, {1, 9, config.hidden_size}, DType::kF64);
  Saved discard(Saved::Mode::kDiscard);
  const Tensor before = layer.forward(x, discard).clone();
  x.slice(1, {0, 4}).fill(1.0);
  const Tensor after = layer.forward(x, discard);
  const auto of = [](const Tensor& y, Range tokens) { return y.slice(1, tokens).contiguous(); };
  EXPECT_TRUE(test::all_equal(of(after, {6, 9}), of(before, {6, 9})));
  EXPECT_FALSE(test::all_near(of(after, {5, 6}), of(before, {5, 6}), 1e-9));
}

// Rotary attention sees differences of positions only, so a document does not know where it stands.
TEST_F(AttentionLayerTest, EachDocumentOfASequenceIsAsIfItWereAlone) {
  config.max_seq_len = 9;
  SelfAttention layer(context(), 0);
  randomize(layer);
  const Tensor x = random.tensor(device, {2, 9, config.hidden_size}, DType::kF64);
  const Tensor d_y = random.tensor(device, x.shape(), DType::kF64);
  auto places = std::make_shared<const TokenPlaces>(
      TokenPlaces{.sequence_len = 9,
                  .document_begins = {0, 0, 0, 3, 3, 3, 3, 7, 7, 0, 1, 1, 1, 1, 1, 1, 1, 1}});
  Saved saved(Saved::Mode::kKeep, {.places = places});
  const Tensor y = layer.forward(x, saved);
  const Tensor d_x = layer.backward(d_y, saved);
  const std::vector<std::vector<Range>> documents = {{{0, 3}, {3, 7}, {7, 9}}, {{0, 1}, {1, 9}}};
  for (std::size_t sequence = 0; sequence < 2; ++sequence) {
    for (const Range& document : documents[sequence]) {
      const auto part = [&](const Tensor& all) {
        return all.slice(0, {sequence, sequence + 1}).slice(1, document).contiguous();
      };
      Saved alone;
      EXPECT_TRUE(test::all_near(part(y), layer.forward(part(x), alone), 1e-12));
      EXPECT_TRUE(test::all_near(part(d_x), layer.backward(part(d_y), alone), 1e-12));
    }
  }
}

}  // namespace
}  // namespace ultra::nn
