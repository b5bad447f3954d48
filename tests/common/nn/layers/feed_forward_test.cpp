#include "common/nn/layers/feed_forward.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/common/nn/layer_fixture.hpp"

namespace ultra::nn {
namespace {

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

TEST_F(FeedForwardTest, GradientsMatchFiniteDifferences) {
  SwigluFeedForward layer(context(), 0);
  check_layer(layer, hidden_states());
}

}  // namespace
}  // namespace ultra::nn
