#include "common/nn/layers/attention_layer.hpp"

#include <map>

#include "common/ops/elementwise.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

class AttentionLayerTest : public LayerTest {};

TEST_F(AttentionLayerTest, OwnsFourProjections) {
  SelfAttention layer(context(), 1);
  std::vector<std::string> names;
  for (const Parameter* p : layer.parameters()) names.push_back(p->name());
  EXPECT_THAT(names, ::testing::ElementsAre("model.layers.1.self_attn.q_proj.weight",
                                            "model.layers.1.self_attn.k_proj.weight",
                                            "model.layers.1.self_attn.v_proj.weight",
                                            "model.layers.1.self_attn.o_proj.weight"));
  EXPECT_EQ(layer.parameters()[1]->global_shape(),
            (Shape{config.kv_hidden_size(), config.hidden_size}));
}

TEST_F(AttentionLayerTest, SavesWhatItsHeaderNames) {
  SelfAttention layer(context(), 0);
  Saved saved;
  static_cast<void>(layer.forward(hidden_states(), saved));
  std::vector<std::string> paths;
  saved.for_each([&](const std::string& path, const Tensor&) { paths.push_back(path); });
  EXPECT_THAT(paths,
              ::testing::UnorderedElementsAre("qkv/input", "core/query", "core/key", "core/value",
                                              "core/output", "core/log_sum_exp", "output/input"));
  EXPECT_TRUE(saved.child("core").get("output").shares_storage(saved.child("output").get("input")));
}

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

TEST_F(AttentionLayerTest, ATokenSeesItsPastOnly) {
  config.max_seq_len = 9;
  SelfAttention layer(context(), 0);
  randomize(layer);
  const Tensor x = random.tensor(device, {1, 9, config.hidden_size}, DType::kF64);
  Saved discard(Saved::Mode::kDiscard);
  const Tensor before = layer.forward(x, discard).clone();
  x.slice(1, {5, 9}).fill(1.0);
  const Tensor after = layer.forward(x, discard);
  EXPECT_TRUE(test::all_equal(after.slice(1, {0, 5}), before.slice(1, {0, 5})));
  EXPECT_FALSE(test::all_equal(after.slice(1, {5, 9}), before.slice(1, {5, 9})));
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

TEST_F(AttentionLayerTest, TheCoresGradientsAreThoseOfTheUnrotatedInputs) {
  CausalAttention core(context());
  const std::size_t seq = random.between(1, config.max_seq_len);
  const Shape query_shape{1, seq, config.num_heads, config.head_dim()};
  const Shape key_shape{1, seq, config.num_kv_heads, config.head_dim()};
  const Tensor query = random.tensor(device, query_shape, DType::kF64);
  const Tensor key = random.tensor(device, key_shape, DType::kF64);
  const Tensor value = random.tensor(device, key_shape, DType::kF64);
  const Tensor d_output = random.tensor(device, query_shape, DType::kF64);
  // The core rotates its arguments in place: it gets copies here.
  const auto forward = [&](Saved& saved) {
    return core.forward(query.clone(), key.clone(), value.clone(), saved);
  };
  Saved saved;
  static_cast<void>(forward(saved));
  const auto [d_query, d_key, d_value] = core.backward(d_output, saved);
  EXPECT_TRUE(saved.empty());
  const auto f = [&] {
    Saved discard(Saved::Mode::kDiscard);
    return test::inner_product(d_output, forward(discard));
  };
  EXPECT_TRUE(test::gradients_match(
      random, f, {{"query", query, d_query}, {"key", key, d_key}, {"value", value, d_value}}));
}

}  // namespace
}  // namespace ultra::nn
