// A model whose output projection is its token table: one parameter that two layers use.
// Covers: common/nn/model.hpp
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/nn/model.hpp"
#include "common/ops/elementwise.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/training/finite_difference.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::nn {
namespace {

using test::count_of;
using ::testing::ElementsAre;

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

TEST_F(TiedEmbeddings, GradientsMatchFiniteDifferences) {
  Model model = whole();
  test::randomize_weights(random, model);
  const test::MicroBatch batch = draw_batch();
  const double tokens = count_of(batch.tokens.numel());
  test::run_step(model, batch, tokens);
  const auto loss = [&] {
    Saved discard(Saved::Mode::kDiscard);
    return model.loss(model.forward(batch.tokens, discard), batch.targets, tokens, discard);
  };
  std::vector<test::Differentiated> at;
  for (Parameter* p : model.parameters()) at.push_back({p->name(), p->value(), p->grad()});
  EXPECT_TRUE(test::gradients_match(random, loss, at, 8));
}

TEST_F(TiedEmbeddings, AStageWithBothEndsHasOneTableAndOthersHaveOneEach) {
  Model model = whole();
  Model begin = make({.layers = {0, 1}, .has_head = false});
  Model end = make({.layers = {1, 2}, .has_embedding = false});
  EXPECT_THAT(names_of(end.parts()), ElementsAre("block 1", "final norm", "head"));
  const Parameter& first = *begin.parameters().front();
  const Parameter& last = *end.parameters().back();
  EXPECT_EQ(last.name(), first.name());
  EXPECT_TRUE(test::all_equal(last.value(), first.value())) << "they start alike";
  const auto one_of_two = [](int index) {
    return Replication{.group = std::string(kTiedGroup),
                       .size = 2,
                       .index = index,
                       .gradients = CopyGradients::kPartial};
  };
  EXPECT_THAT(first.replications(), ElementsAre(one_of_two(0)));
  EXPECT_THAT(last.replications(), ElementsAre(one_of_two(1)));

  const test::MicroBatch batch = draw_batch();
  const double loss = test::run_step(model, batch, 10.0);
  Saved saved_begin;
  Saved saved_end;
  const Tensor logits = end.forward(begin.forward(batch.tokens, saved_begin), saved_end);
  EXPECT_EQ(end.loss(logits, batch.targets, 10.0, saved_end), loss);
  begin.backward(end.backward(saved_end), saved_begin);
  const Tensor sum = first.grad().clone();
  ops::add_into(sum, last.grad());
  const Tensor& expected = model.parameters().front()->grad();
  const double tokens = count_of(batch.tokens.numel());
  const double magnitude = tokens * test::largest_gradient(model);
  EXPECT_TRUE(
      test::all_near(sum, expected, test::rounding_bound(DType::kF64, 2 * tokens, magnitude)));
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
