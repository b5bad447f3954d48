// Scaling curves, goodput, heat maps.
//
// Covers: chapters/11_five_d/planner/scaling/scaling_curves.hpp
// Covers: chapters/11_five_d/planner/fit.hpp

#include "chapters/11_five_d/planner/scaling/scaling_curves.hpp"

#include "chapters/11_five_d/planner/fit.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

class ScalingCurves : public ultra::test::RandomTest {
 protected:
  static Question question() {
    return {.work = {.model = *find_model("llama-8b"), .seq_len = 4096, .global_batch = 64},
            .cluster = *replay::find_cluster("dgx-h100"),
            .software = find_software("modern")};
  }
};

TEST_F(ScalingCurves, TheIntervalLosesLeast) {
  // Young's interval beside others, on a machine that is simulated second by second is chapter 04's
  // matter: here its own loss is the least.
  const Goodput best = goodput(question(), 4096);
  const auto kept = [&](double interval) {
    return 1 - best.checkpoint_seconds / interval - interval / (2 * best.failure_seconds) -
           question().cluster.restart_seconds / best.failure_seconds;
  };
  EXPECT_NEAR(best.kept, kept(best.interval_seconds), 1e-12);
  for (int round = 0; round < 20; ++round) {
    EXPECT_GE(best.kept, kept(best.interval_seconds * random.uniform(0.1, 10)) - 1e-12);
  }
}

TEST_F(ScalingCurves, FailuresGrowWithTheGpus) {
  EXPECT_GT(goodput(question(), 64).kept, goodput(question(), 16384).kept);
  Question fragile = question();
  fragile.cluster.mean_hours_to_failure = 1;
  EXPECT_EQ(goodput(fragile, 16384).kept, 0);
  // Llama 3: 419 unplanned interruptions of 16,384 GPUs in 54 days: 50,700 hours of each.
  EXPECT_NEAR(goodput(question(), 16384).failure_seconds / 3600, 54.0 * 24 / 419, 0.5);
}

TEST_F(ScalingCurves, WhatDoesNotFitIsSaidSo) {
  Question large = question();
  large.work.model = *find_model("llama-405b");
  const auto curve = scaling_curve(large, {}, ScalingKind::kStrong, {8, 512});
  EXPECT_FALSE(curve[0].best);
  EXPECT_EQ(curve[0].first_loss, "memory");
  const auto json = curve_to_json(curve);
  EXPECT_FALSE(json[0]["fits"].get<bool>());
  EXPECT_TRUE(json[1]["fits"].get<bool>());
}

TEST_F(ScalingCurves, HeatMapsHaveACellForEveryPair) {
  const auto map = heat_map(question(), {.gpus = 16});
  EXPECT_EQ(map["gpus"], 16);
  double best = 0;
  for (const Json& cell : map["cells"].elements()) {
    EXPECT_GT(cell["memory_gb"].get<double>(), 0);
    if (cell.contains("mfu")) best = std::max(best, cell["mfu"].get<double>());
  }
  EXPECT_DOUBLE_EQ(best, search_layouts(question(), {.gpus = 16}, 1).best.front().mfu);
}

Question cost_question() {
  return {.work = {.model = *find_model("llama-405b"), .seq_len = 8192, .global_batch = 2048},
          .cluster = *replay::find_cluster("dgx-h100"),
          .software = find_software("llama3")};
}

// A step of 16,777,216 tokens in 25 s: 1e12 tokens are 59,605 steps, 17.25 days.
TEST(TrainingCost, IsThatOfItsSteps) {
  Prediction prediction;
  prediction.layout = {.dp = 128, .pp = 16, .tp = 8};
  prediction.tokens_per_second = 16'777'216 / 25.0;
  const TrainingCost cost = training_cost(cost_question(), prediction, 1e12, 2.5);
  EXPECT_NEAR(cost.days, 17.25, 0.01);
  const double kept = goodput(cost_question(), 16384).kept;
  ASSERT_GT(kept, 0.5);
  ASSERT_LT(kept, 1);
  EXPECT_DOUBLE_EQ(cost.real_days, cost.days / kept);
  EXPECT_DOUBLE_EQ(cost.gpu_hours, cost.real_days * 24 * 16384);
  EXPECT_DOUBLE_EQ(cost.dollars, 2.5 * cost.gpu_hours);
}

TEST(TrainingCost, IsALineForEachLayout) {
  Prediction prediction;
  prediction.layout = {.dp = 128, .pp = 16, .tp = 8};
  prediction.tokens_per_second = 16'777'216 / 25.0;
  const std::vector<Prediction> best(2, prediction);
  EXPECT_THAT(costs_to_text(cost_question(), best, 1e12, 0),
              AllOf(HasSubstr("1e+12 tokens"), HasSubstr("GPU hours"), Not(HasSubstr("dollars"))));
  EXPECT_THAT(costs_to_text(cost_question(), best, 1e12, 2), HasSubstr("dollars"));
  const Json rows = costs_to_json(cost_question(), best, 1e12, 2);
  EXPECT_EQ(rows.size(), 2U);
  EXPECT_NEAR(rows.at(1).at("days").get<double>(), 17.25, 0.01);
}

// The list of remedies.

using memory::Recompute;
using zero::ZeroStage;

TEST(CheaperLayouts, FromTheCheapestToTheDearest) {
  const std::vector<Layout> list = cheaper_layouts({.dp = 8, .micro_batch = 4});
  ASSERT_GE(list.size(), 7U);
  EXPECT_EQ(list[0].zero, ZeroStage::kGradients);
  EXPECT_EQ(list[1].zero, ZeroStage::kParameters);
  EXPECT_EQ(list[2].recompute, Recompute::kSelective);
  EXPECT_EQ(list[3].recompute, Recompute::kFull);
  EXPECT_EQ(list[4].micro_batch, 2U);
  EXPECT_EQ(list[5].micro_batch, 1U);
  EXPECT_TRUE(list[6].offload);
  EXPECT_TRUE(list.back().offload);
  EXPECT_EQ(list.back().zero, ZeroStage::kParameters);
}

TEST(CheaperLayouts, NobodyToShareWithNoZero) {
  for (const Layout& layout : cheaper_layouts({.tp = 8})) {
    EXPECT_EQ(layout.zero, ZeroStage::kOptimizer);
    EXPECT_EQ(layout.tp, 8U);
  }
}

}  // namespace
}  // namespace ultra::planner
