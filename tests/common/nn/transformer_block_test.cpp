#include "common/nn/transformer_block.hpp"

#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

class TransformerBlockTest : public LayerTest {};

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

}  // namespace
}  // namespace ultra::nn
