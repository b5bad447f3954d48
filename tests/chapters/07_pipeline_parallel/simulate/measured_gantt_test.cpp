#include "chapters/07_pipeline_parallel/simulate/measured_gantt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::pipeline_parallel {
namespace {

TEST(MeasuredGantt, GivesTheCostsOfEveryPart) {
  const CostModel costs = costs_of_gantt(
      R"({"schedule": "x", "costs": {"F": [1, 2], "BW": [0, 0], "B": [3, 4], "W": [5, 6],
          "U": [7, 8]}})",
      "gantt.json");
  ASSERT_EQ(costs.parts.size(), 2U);
  EXPECT_EQ(costs.parts[1].forward, 2);
  EXPECT_EQ(costs.parts[1].backward_input, 4);
  EXPECT_EQ(costs.parts[1].backward_weight, 6);
  EXPECT_EQ(costs.update, 8);
}

TEST(MeasuredGantt, HalvesWholeBackwardPasses) {
  const CostModel costs = costs_of_gantt(
      R"({"costs": {"F": [1], "BW": [6], "B": [0], "W": [0], "U": [0]}})", "gantt.json");
  EXPECT_EQ(costs.parts[0].backward(), 6);
  EXPECT_EQ(costs.parts[0].backward_input, 3);
}

TEST(MeasuredGantt, RefusesOtherTexts) {
  for (const char* text : {"", "F0 BW0", "{}", R"({"costs": 3})", R"({"costs": {"F": []}})",
                           R"({"costs": {"F": [1, 2], "BW": [1], "B": [0], "W": [0], "U": [0]}})",
                           R"({"costs": {"F": ["x"], "BW": [1], "B": [0], "W": [0], "U": [0]}})"}) {
    EXPECT_THAT(ultra::test::message_of<ConfigError>(
                    [&] { static_cast<void>(costs_of_gantt(text, "gantt.json")); }),
                ::testing::HasSubstr("'gantt.json' has no costs of a pipeline's parts"))
        << text;
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
