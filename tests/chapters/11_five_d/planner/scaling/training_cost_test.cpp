#include "chapters/11_five_d/planner/scaling/training_cost.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chapters/11_five_d/planner/scaling/scaling_curves.hpp"

namespace ultra::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

// Llama 3 405B: 15.6e12 tokens, 30.84 million hours of H100 (Meta's model card), effective time above
// 90 % (arXiv 2407.21783, section 3.3.4).
TEST(TrainingCost, IsNearLlama3s) {
  const Question asked = cost_question();
  const Layout layout{
      .dp = 128,
      .pp = 16,
      .tp = 8,
      .zero = zero::ZeroStage::kOptimizer,
      .schedule = {.kind = pipeline_parallel::ScheduleKind::kInterleaved, .interleaved_chunks = 4}};
  const TrainingCost cost = training_cost(asked, predict(asked, layout), 15.6e12, 0);
  EXPECT_GT(cost.gpu_hours, 0.6 * 30.84e6);
  EXPECT_LT(cost.gpu_hours, 1.4 * 30.84e6);
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

}  // namespace
}  // namespace ultra::planner
