// Models of any range of layers: what a pipeline's stages are.
//
// Covers: common/nn/model.hpp, common/nn/collect.hpp

#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"
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

TEST_F(ModelStagesTest, AnyStagesJoinedEqualTheWholeBitwise) {
  for (int round = 0; round < 5; ++round) {
    config = test::random_model_config(random);
    expect_equal_to_whole(draw_cuts(), random.pick({DType::kF32, DType::kF64}));
  }
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

// A model whose output projection is its token table: one parameter that two layers use.

class TiedEmbeddings : public test::RandomTest {
 protected:
  [[nodiscard]] Model make(const StageSpec& stage) {
    return {config, device, DType::kF64, seed, factory, stage};
  }
  [[nodiscard]] Model whole() { return make(StageSpec::whole(config)); }
  [[nodiscard]] test::MicroBatch draw_batch() {
    return test::random_micro_batch(random, device, config, 2, config.max_seq_len);
  }

  static std::vector<std::string> names_of(const std::vector<ModelPart>& parts) {
    std::vector<std::string> names;
    for (const ModelPart& part : parts) names.push_back(part.name);
    return names;
  }

  nn::ModelConfig config = [this] {
    nn::ModelConfig drawn = test::random_model_config(random);
    drawn.tied_embeddings = true;
    drawn.num_layers = 2;
    drawn.norm_epsilon = 0.1;
    return drawn;
  }();
  DenseFactory factory;
};

TEST_F(TiedEmbeddings, AreOneParameterWithTwoUses) {
  const Model model = whole();
  EXPECT_EQ(model.parameters().size(), 2 * 9 + 2U) << "no lm_head.weight";
  EXPECT_EQ(model.parameters().front()->name(), "model.embed_tokens.weight");
  EXPECT_EQ(model.parameters().back()->name(), "model.norm.weight");
  for (const Parameter* parameter : model.parameters()) {
    EXPECT_EQ(model.uses(*parameter), parameter == model.parameters().front() ? 2U : 1U)
        << parameter->name();
  }
  const Parameter other({.name = "other", .global_shape = {1}, .shard = {}, .initializer = {}},
                        device, DType::kF64, seed);
  EXPECT_EQ(model.uses(other), 0U);
  EXPECT_THAT(names_of(model.parts()), ElementsAre("embedding", "block 0", "block 1", "head"));
  EXPECT_EQ(model.parts().back().parameters.size(), 1U) << "the table belongs to the first part";
  EXPECT_TRUE(model.parameters().front()->replications().empty());
}

TEST_F(TiedEmbeddings, HooksSeeTheNormAndTheTableOfTheLastStageAsTwoParts) {
  Model begin = make({.layers = {0, 1}, .has_head = false});
  Model end = make({.layers = {1, 2}, .has_embedding = false});
  std::vector<std::size_t> forward;
  std::vector<std::size_t> backward;
  const HookHandle hook = end.add_part_hook({.forward =
                                                 [&](const PartCall& call) {
                                                   forward.push_back(call.part);
                                                   call.compute();
                                                 },
                                             .backward =
                                                 [&](const PartCall& call) {
                                                   backward.push_back(call.part);
                                                   call.compute();
                                                 }});
  const test::MicroBatch batch = draw_batch();
  Saved saved;
  Saved saved_begin;
  const Tensor logits = end.forward(begin.forward(batch.tokens, saved_begin), saved);
  static_cast<void>(end.loss(logits, batch.targets, 1.0, saved));
  static_cast<void>(end.backward(saved));
  EXPECT_THAT(forward, ElementsAre(0, 1, 2));
  EXPECT_THAT(backward, ElementsAre(1, 2, 0)) << "the head's parts before the block";
}

TEST_F(TiedEmbeddings, TheWholeModelsListHasTheTableOnce) {
  const std::vector<NamedShape> named = named_shapes(config, factory);
  EXPECT_EQ(named.size(), 2 * 9 + 2U);
  EXPECT_EQ(std::ranges::count(named, "model.embed_tokens.weight", &NamedShape::name), 1);
  EXPECT_EQ(std::ranges::count(named, "lm_head.weight", &NamedShape::name), 0);
}

}  // namespace
}  // namespace ultra::nn
