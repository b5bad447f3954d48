// What small layers say can be made again. What they compute is tested in blocks and models.
// Covers: common/nn/layers/embedding_layer.hpp
// Covers: common/nn/layers/norm.hpp
// Covers: common/nn/layers/feed_forward.hpp

#include "common/nn/layers/embedding_layer.hpp"
#include "common/nn/layers/feed_forward.hpp"
#include "common/nn/layers/norm.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

class NormTest : public LayerTest {};

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

class FeedForwardTest : public LayerTest {};

TEST_F(FeedForwardTest, SaysHowTheProductIsMadeAgain) {
  SwigluFeedForward layer(context(), 0);
  expect_remakes(layer, hidden_states(), "down/input");
}

}  // namespace
}  // namespace ultra::nn
