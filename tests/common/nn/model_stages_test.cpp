// Models of any range of layers: what a pipeline's stages are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/base/errors.hpp"
#include "common/nn/model.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::nn {
namespace {

class ModelStagesTest : public test::RandomTest {
 protected:
  /// One model per pair of neighbouring cuts; the first has the embedding, the last the head.
  [[nodiscard]] std::vector<std::unique_ptr<Model>> stages(const std::vector<std::size_t>& cuts,
                                                           DType dtype) {
    std::vector<std::unique_ptr<Model>> all;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const StageSpec stage{.layers = {cuts[i], cuts[i + 1]},
                            .has_embedding = i == 0,
                            .has_head = i + 2 == cuts.size()};
      all.push_back(std::make_unique<Model>(config, device, dtype, seed, factory, stage));
    }
    return all;
  }

  /// Ascending cuts from 0 to the number of layers; equal neighbours make empty stages.
  [[nodiscard]] std::vector<std::size_t> draw_cuts() {
    std::vector<std::size_t> cuts = {0, config.num_layers};
    const std::size_t count = random.between(1, 3);
    for (std::size_t i = 0; i < count; ++i) cuts.push_back(random.between(0, config.num_layers));
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }

  void expect_equal_to_whole(const std::vector<std::size_t>& cuts, DType dtype);

  ModelConfig config = test::random_model_config(random);
  DenseFactory factory;
};

void ModelStagesTest::expect_equal_to_whole(const std::vector<std::size_t>& cuts, DType dtype) {
  Model whole(config, device, dtype, seed, factory);
  const auto parts = stages(cuts, dtype);
  const test::MicroBatch batch =
      test::random_micro_batch(random, device, config, 2, random.between(1, config.max_seq_len));

  Saved whole_saved;
  const Tensor whole_logits = whole.forward(batch.tokens, whole_saved);
  std::vector<Saved> saved(parts.size());
  Tensor x = batch.tokens;
  for (std::size_t i = 0; i < parts.size(); ++i) x = parts[i]->forward(x, saved[i]);
  EXPECT_TRUE(test::all_equal(x, whole_logits));

  const double loss = whole.loss(whole_logits, batch.targets, 10.0, whole_saved);
  EXPECT_EQ(parts.back()->loss(x, batch.targets, 10.0, saved.back()), loss);

  whole.backward(whole_saved);
  Tensor d_x = parts.back()->backward(saved.back());
  for (std::size_t i = parts.size() - 1; i-- > 0;) d_x = parts[i]->backward(d_x, saved[i]);
  EXPECT_FALSE(d_x.defined());  // tokens have no gradient

  std::size_t index = 0;
  for (const auto& part : parts) {
    for (const Parameter* p : part->parameters()) {
      const Parameter& expected = *whole.parameters().at(index++);
      EXPECT_EQ(p->name(), expected.name());
      EXPECT_TRUE(test::all_equal(p->value(), expected.value())) << p->name();
      EXPECT_TRUE(test::all_equal(p->grad(), expected.grad())) << p->name();
    }
  }
  EXPECT_EQ(index, whole.parameters().size());
  const std::vector<NamedShape> named = named_shapes(config, factory);
  ASSERT_EQ(named.size(), index);
  for (std::size_t i = 0; i < index; ++i) {
    EXPECT_EQ(named[i].name, whole.parameters()[i]->name());
    EXPECT_EQ(named[i].shape, whole.parameters()[i]->shape());
  }
  for (const Saved& one : saved) EXPECT_TRUE(one.empty());
}

TEST_F(ModelStagesTest, TwoHalvesJoinedEqualTheWholeBitwiseForEverySplit) {
  for (std::size_t cut = 0; cut <= config.num_layers; ++cut) {
    expect_equal_to_whole({0, cut, config.num_layers}, random.pick({DType::kF32, DType::kF64}));
  }
}

TEST_F(ModelStagesTest, AnyStagesJoinedEqualTheWholeBitwise) {
  for (int round = 0; round < 5; ++round) {
    config = test::random_model_config(random);
    expect_equal_to_whole(draw_cuts(), random.pick({DType::kF32, DType::kF64}));
  }
}

TEST_F(ModelStagesTest, AStageHoldsItsOwnParametersOnly) {
  config.num_layers = 3;
  const auto parts = stages({0, 1, 1, 3}, DType::kF32);
  EXPECT_EQ(parts[0]->parameters().size(), 10U);  // the table and one block
  EXPECT_EQ(parts[1]->parameters().size(), 0U);
  EXPECT_EQ(parts[2]->parameters().size(), 20U);  // two blocks, the norm and the head
  EXPECT_EQ(parts[2]->parameters().front()->name(), "model.layers.1.input_layernorm.weight");
}

TEST_F(ModelStagesTest, OnlyAStageWithAHeadHasALoss) {
  const auto parts = stages({0, 0, config.num_layers}, DType::kF32);
  const test::MicroBatch batch = test::random_micro_batch(random, device, config, 1, 1);
  Saved saved;
  const Tensor hidden = parts[0]->forward(batch.tokens, saved);
  EXPECT_THAT(test::message_of<InternalError>(
                  [&] { static_cast<void>(parts[0]->loss(hidden, batch.targets, 1.0, saved)); }),
              ::testing::HasSubstr("without head"));
  EXPECT_THROW(parts[0]->backward(saved), InternalError);
}

}  // namespace
}  // namespace ultra::nn
