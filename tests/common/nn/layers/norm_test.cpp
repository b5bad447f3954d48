#include "common/nn/layers/norm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/ops/rms_norm.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/compare.hpp"

namespace ultra::nn {
namespace {

class NormTest : public LayerTest {};

TEST_F(NormTest, StartsWithAWeightOfOnes) {
  RmsNorm norm(context(), "model.norm.weight");
  ASSERT_EQ(norm.parameters().size(), 1U);
  EXPECT_EQ(norm.parameters()[0]->name(), "model.norm.weight");
  EXPECT_EQ(norm.parameters()[0]->value().shape(), (Shape{config.hidden_size}));
  EXPECT_THAT(norm.parameters()[0]->value().to_vector(), ::testing::Each(1.0));
}

TEST_F(NormTest, IsTheOperationWithTheModelsEpsilon) {
  config.norm_epsilon = 0.25;
  RmsNorm norm(context(), "w");
  const Tensor x = hidden_states();
  Saved saved;
  const Tensor y = norm.forward(x, saved);
  const auto expected = ops::rms_norm(x, norm.parameters()[0]->value(), 0.25);
  EXPECT_TRUE(test::all_equal(y, expected.y));
  EXPECT_TRUE(saved.get("input").shares_storage(x));
  EXPECT_TRUE(test::all_equal(saved.get("reciprocal_rms"), expected.reciprocal_rms));
}

TEST_F(NormTest, GradientsMatchFiniteDifferences) {
  config.norm_epsilon = 0.1;
  RmsNorm norm(context(), "w");
  check_layer(norm, hidden_states());
}

}  // namespace
}  // namespace ultra::nn
