// Scaling curves, goodput, heat maps.
//
// Covers: chapters/11_five_d/planner/scaling/scaling_curves.hpp
#include "chapters/11_five_d/planner/scaling/scaling_curves.hpp"

#include <gtest/gtest.h>

#include "tests/support/random.hpp"

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

TEST_F(ScalingCurves, StrongScalingEndsWeakScalingGoesOn) {
  const std::vector<std::size_t> gpus = {8, 64, 512, 4096};
  const auto strong = scaling_curve(question(), {}, ScalingKind::kStrong, gpus);
  const auto weak = scaling_curve(question(), {}, ScalingKind::kWeak, gpus);
  ASSERT_EQ(weak.size(), 4U);
  EXPECT_DOUBLE_EQ(weak.front().efficiency, 1);
  EXPECT_EQ(weak.back().global_batch, 64U * 512);
  EXPECT_GT(weak[2].efficiency, 0.75);
  ASSERT_TRUE(strong[2].best);
  EXPECT_LT(strong[2].efficiency, weak[2].efficiency);
}

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

}  // namespace
}  // namespace ultra::planner
