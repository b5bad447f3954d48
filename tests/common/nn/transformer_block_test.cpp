#include "common/nn/transformer_block.hpp"

#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

class TransformerBlockTest : public LayerTest {
 protected:
  [[nodiscard]] std::vector<std::unique_ptr<Layer>> blocks(std::size_t count) {
    std::vector<std::unique_ptr<Layer>> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(std::make_unique<TransformerBlock>(context(), i));
      randomize(*all.back());
    }
    return all;
  }
};

TEST_F(TransformerBlockTest, OwnsNineWeightsInForwardOrder) {
  TransformerBlock block(context(), 4);
  std::vector<std::string> names;
  for (const Parameter* p : block.parameters()) names.push_back(p->name());
  EXPECT_THAT(
      names,
      ElementsAre(
          "model.layers.4.input_layernorm.weight", "model.layers.4.self_attn.q_proj.weight",
          "model.layers.4.self_attn.k_proj.weight", "model.layers.4.self_attn.v_proj.weight",
          "model.layers.4.self_attn.o_proj.weight",
          "model.layers.4.post_attention_layernorm.weight", "model.layers.4.mlp.gate_proj.weight",
          "model.layers.4.mlp.up_proj.weight", "model.layers.4.mlp.down_proj.weight"));
}

TEST_F(TransformerBlockTest, GradientsMatchFiniteDifferences) {
  config.norm_epsilon = 0.1;
  TransformerBlock block(context(), 0);
  check_layer(block, hidden_states());
}

TEST_F(TransformerBlockTest, LeavesItsInputAlone) {
  TransformerBlock block(context(), 0);
  const Tensor x = hidden_states();
  const Tensor before = x.clone();
  Saved saved;
  const Tensor y = block.forward(x, saved);
  EXPECT_TRUE(test::all_equal(x, before));
  const Tensor d_y = random.tensor(device, y.shape(), DType::kF64);
  const Tensor d_before = d_y.clone();
  static_cast<void>(block.backward(d_y, saved));
  EXPECT_TRUE(test::all_equal(d_y, d_before));
}

TEST_F(TransformerBlockTest, WithoutWeightsItIsTheIdentity) {
  TransformerBlock block(context(), 0);
  for (Parameter* p : block.parameters()) p->value().fill(0.0);
  const Tensor x = hidden_states();
  Saved saved;
  EXPECT_TRUE(test::all_equal(block.forward(x, saved), x));
}

TEST_F(TransformerBlockTest, ASequenceAppliesItsLayersInOrder) {
  auto own = blocks(3);
  const Tensor x = hidden_states();
  Saved discard(Saved::Mode::kDiscard);
  Tensor expected = x;
  for (const auto& block : own) expected = block->forward(expected, discard);
  Sequential stack(std::move(own));
  EXPECT_TRUE(test::all_equal(stack.forward(x, discard), expected));
  EXPECT_EQ(stack.parameters().size(), 27U);
  EXPECT_EQ(stack.parameters()[9]->name(), "model.layers.1.input_layernorm.weight");
}

TEST_F(TransformerBlockTest, ASequenceKeepsOneSubtreePerLayerAndGoesBackThroughThem) {
  config.norm_epsilon = 0.1;
  Sequential stack(blocks(2));
  Saved saved;
  static_cast<void>(stack.forward(hidden_states(), saved));
  EXPECT_FALSE(saved.child("0").empty());
  EXPECT_FALSE(saved.child("1").empty());
  check_layer(stack, hidden_states());
}

TEST_F(TransformerBlockTest, AnEmptySequenceIsTheIdentity) {
  Sequential stack({});
  Saved saved;
  const Tensor x = hidden_states();
  EXPECT_TRUE(test::all_equal(stack.forward(x, saved), x));
  EXPECT_TRUE(test::all_equal(stack.backward(x, saved), x));
  EXPECT_TRUE(saved.empty());
  EXPECT_THAT(stack.parameters(), IsEmpty());
}

TEST_F(TransformerBlockTest, HooksSurroundThePassesOfTheirBlock) {
  const auto hooks = std::make_shared<PartHooks>();
  HookedBlock block(7, std::make_unique<TransformerBlock>(context(), 7), hooks);
  std::vector<std::string> calls;
  const auto record = [&](const char* what) {
    return [&calls, what](const PartCall& call) {
      calls.push_back(what + std::to_string(call.part));
      call.compute();
      calls.emplace_back(what);
    };
  };
  const HookHandle first =
      hooks->add({.forward = record("forward "), .backward = record("backward ")});
  HookHandle second = hooks->add({.forward = record("inner ")});
  Saved saved;
  const Tensor y = block.forward(hidden_states(), saved);
  EXPECT_THAT(calls, ElementsAre("forward 7", "inner 7", "inner ", "forward "));
  calls.clear();
  static_cast<void>(block.backward(y, saved));
  EXPECT_THAT(calls, ElementsAre("backward 7", "backward "));
  calls.clear();
  second.reset();
  static_cast<void>(block.forward(hidden_states(), saved));
  EXPECT_THAT(calls, ElementsAre("forward 7", "forward ")) << "a hook whose handle is gone";
}

}  // namespace
}  // namespace ultra::nn
