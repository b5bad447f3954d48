#include "common/nn/layers/loss_layer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/errors.hpp"
#include "common/ops/cross_entropy.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra::nn {
namespace {

class LossLayerTest : public test::RandomTest {};

TEST_F(LossLayerTest, ItsGradientTakesTheLogitsPlace) {
  const Tensor logits = random.tensor(device, {2, 3, 7}, DType::kF64);
  const Tensor targets = random.tokens(device, {2, 3}, 7);
  const Tensor expected = logits.clone();
  const double expected_loss = ops::cross_entropy_into_gradient(expected, targets, 11.0);
  CrossEntropyLoss loss;
  Saved saved;
  EXPECT_EQ(loss.forward(logits, targets, 11.0, saved), expected_loss);
  EXPECT_EQ(logits.category(), MemoryCategory::kActivations);
  const Tensor d_logits = loss.backward(saved);
  EXPECT_TRUE(d_logits.shares_storage(logits));
  EXPECT_TRUE(test::all_equal(d_logits, expected));
  EXPECT_TRUE(saved.empty());
  EXPECT_THROW(static_cast<void>(loss.backward(saved)), InternalError);
}

}  // namespace
}  // namespace ultra::nn
