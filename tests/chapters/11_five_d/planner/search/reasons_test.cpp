// Reasons: where the time goes, what would change it, what recipes say.
//
// Covers: chapters/11_five_d/planner/search/reasons.hpp
#include "chapters/11_five_d/planner/search/reasons.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace ultra::planner {
namespace {

using ::testing::HasSubstr;

Question question(const char* model, const char* cluster = "dgx-h100") {
  return {.work = {.model = *find_model(model), .seq_len = 4096, .global_batch = 1024},
          .cluster = *replay::find_cluster(cluster),
          .software = find_software("modern")};
}

TEST(Reasons, TheBottleneckIsWhatWasMadeSlow) {
  Question slow = question("llama-8b");
  slow.cluster.inter.bandwidth /= 1000;
  EXPECT_EQ(bottleneck(predict(slow, {.dp = 64})).what, "exchanges between replicas");
  slow = question("llama-8b");
  slow.cluster.intra.bandwidth /= 100;
  EXPECT_EQ(bottleneck(predict(slow, {.dp = 8, .tp = 8})).what, "tensor-parallel exchanges");
  slow = question("llama-8b");
  slow.work.global_batch = 8;
  EXPECT_EQ(bottleneck(predict(slow, {.dp = 4, .pp = 16})).what, "the pipeline's bubble");
  EXPECT_EQ(
      bottleneck(predict(question("llama-8b"), {.dp = 8, .recompute = memory::Recompute::kFull}))
          .what,
      "recomputation");
}

TEST(Reasons, WhatWouldChangeItIsTheBottlenecksCure) {
  Question slow = question("llama-8b");
  slow.cluster.inter.bandwidth /= 1000;
  const Prediction p = predict(slow, {.dp = 64});
  EXPECT_THAT(what_ifs(slow, p).front().change,
              ::testing::AnyOf(HasSubstr("network"), HasSubstr("batch")));
  EXPECT_GT(what_ifs(slow, p).front().gain, 0.3);
}

TEST(Reasons, ANewPlanGainsNoLessThanTheSameLayout) {
  const Question q = question("llama-70b");
  const SearchSpace space{.gpus = 64};
  const Prediction now = search_layouts(q, space, 1).best.front();
  const std::vector<WhatIf> all = what_ifs(q, space, now);
  ASSERT_EQ(all.size(), what_ifs(q, now).size());
  for (const WhatIf& one : all) {
    EXPECT_GE(one.gain_planned_anew, one.gain - 1e-9) << one.change;
    if (one.layout.empty()) {
      EXPECT_NEAR(one.gain_planned_anew, one.gain, 1e-9) << one.change;
    }
  }
  // Where one layout is asked about, nothing else is planned anew.
  SearchSpace fixed = space;
  fixed.only.dp = {now.layout.dp};
  fixed.only.pp = {now.layout.pp};
  fixed.only.tp = {now.layout.tp};
  for (const WhatIf& one : what_ifs(q, fixed, now)) {
    EXPECT_TRUE(one.layout.empty() ||
                one.layout.starts_with(now.layout.str().substr(0, now.layout.str().find(','))))
        << one.layout;
  }
}

TEST(Reasons, TheThreeStepsOfTheDecision) {
  const Question q = question("llama-70b");
  const SearchResult found = search_layouts(q, {.gpus = 256}, 1);
  const DecisionSteps steps = decision_steps(q, found);
  EXPECT_THAT(steps.fit_in_memory, HasSubstr("must be shared"));
  EXPECT_THAT(steps.reach_the_batch, HasSubstr("4,194,304 tokens"));
  EXPECT_THAT(steps.make_it_fast, HasSubstr("The largest loss is"));
}

TEST(Reasons, RecipesBySizeAndGpus) {
  const auto playbook = [](const char* model, const Layout& layout) {
    return recipes(question(model), layout).front();
  };
  EXPECT_TRUE(playbook("llama-8b", {.dp = 8, .zero = zero::ZeroStage::kParameters}).followed);
  EXPECT_FALSE(playbook("llama-8b", {.pp = 2, .tp = 4}).followed);
  EXPECT_TRUE(playbook("llama-70b", {.dp = 4, .pp = 2, .tp = 8}).followed);
  EXPECT_FALSE(playbook("llama-70b", {.dp = 64}).followed);
  EXPECT_THAT(playbook("llama-70b", {.dp = 64, .tp = 8}).advice, HasSubstr("512"));
  EXPECT_THAT(playbook("llama-405b", {.dp = 64, .pp = 16, .tp = 8}).advice, HasSubstr("1,024"));
  EXPECT_TRUE(playbook("llama-405b", {.dp = 64, .pp = 16, .tp = 8}).followed);
}

/// What a source says of a layout; nothing when it has no rule for it.
std::optional<Recipe> advice_of(const char* source, const char* model, const Layout& layout) {
  for (const Recipe& one : recipes(question(model), layout)) {
    if (one.source == source) return one;
  }
  return {};
}

TEST(Reasons, ThePlaybookIsSilentAboveItsSizes) {
  EXPECT_FALSE(advice_of("Playbook", "llama-405b", {.dp = 4, .pp = 8, .tp = 8}));
  EXPECT_TRUE(advice_of("Playbook", "llama-405b", {.dp = 8, .pp = 8, .tp = 8}));
  EXPECT_TRUE(advice_of("Playbook", "llama-70b", {.dp = 4, .pp = 8, .tp = 8}));
}

TEST(Reasons, NarayanansOrderIsTpThenPpThenDp) {
  const auto follows = [](const Layout& layout) {
    return advice_of("Narayanan et al. 2021", "llama-70b", layout).value().followed;
  };
  EXPECT_TRUE(follows({.dp = 2, .pp = 4, .tp = 8}));
  EXPECT_TRUE(follows({.dp = 8, .tp = 8}));
  EXPECT_TRUE(follows({.dp = 64}));
  EXPECT_FALSE(
      follows({.dp = 64, .zero = zero::ZeroStage::kParameters}));  // fits by sharding alone
  EXPECT_FALSE(follows({.dp = 8, .tp = 8, .offload = true}));
  EXPECT_FALSE(follows({.dp = 4, .tp = 16}));
  EXPECT_FALSE(follows({.dp = 8, .pp = 8}));           // pp before tp
  EXPECT_FALSE(follows({.dp = 4, .pp = 8, .tp = 2}));  // pp before all of the node
}

TEST(Reasons, TextbooksBySize) {
  const auto textbook = [](const char* model, const Layout& layout) {
    return advice_of("Textbook", model, layout).value();
  };
  const Layout sharded{.dp = 64, .zero = zero::ZeroStage::kParameters};
  EXPECT_TRUE(textbook("llama-8b", {.dp = 8}).followed);
  EXPECT_FALSE(textbook("llama-8b", {.dp = 4, .tp = 2}).followed);
  EXPECT_FALSE(advice_of("Textbook", "llama-8b", {.dp = 64}));
  EXPECT_TRUE(textbook("llama2-13b", sharded).followed);
  EXPECT_FALSE(textbook("llama2-13b", {.dp = 64}).followed);
  EXPECT_TRUE(textbook("llama-70b", sharded).followed);
  EXPECT_FALSE(textbook("llama-70b", {.dp = 2, .pp = 4, .tp = 8}).followed);
  EXPECT_TRUE(textbook("llama-405b", {.dp = 2, .pp = 8, .tp = 8}).followed);
  EXPECT_FALSE(textbook("llama-405b", sharded).followed);
}

}  // namespace
}  // namespace ultra::planner
