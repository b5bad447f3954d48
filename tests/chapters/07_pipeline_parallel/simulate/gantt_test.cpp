#include "chapters/07_pipeline_parallel/simulate/gantt.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"

namespace ultra::pipeline_parallel {
namespace {

using nlohmann::json;

std::string text_of(ScheduleKind kind, std::size_t stages, std::size_t m, std::size_t columns) {
  const auto schedule = make_schedule({.kind = kind}, stages, m);
  return gantt_text(schedule, simulate(schedule, CostModel::equal(schedule.placement.parts())),
                    columns);
}

TEST(Gantt, AsTextHasAColumnForEverySecond) {
  EXPECT_EQ(text_of(ScheduleKind::kOneFOneB, 2, 2, 100),
            "    0 01..aa.bb\n"
            "    1 .0aa1bb..\n");
  EXPECT_EQ(text_of(ScheduleKind::kZeroBubbleH1, 2, 3, 100),
            "    0 01.aA2bBcC\n"
            "    1 .0a1bA2cBC\n");
}

TEST(Gantt, AsTextIsScaledToItsColumns) {
  const std::string text = text_of(ScheduleKind::kAfab, 4, 100, 60);
  EXPECT_EQ(text.size(), 4 * (6 + 60 + 1U));
  // 309 seconds: the middle of the first column is in the third pass.
  EXPECT_EQ(text.substr(0, 8), "    0 27");
}

TEST(Gantt, AsJsonHasEveryActionAndMessage) {
  const auto schedule = make_schedule({.kind = ScheduleKind::kZbV}, 2, 3);
  const SimulatedStep step = simulate(schedule, CostModel::equal(4));
  const json gantt = json::parse(gantt_json(schedule, step));
  EXPECT_EQ(gantt.at("schedule"), "zb-v");
  EXPECT_EQ(gantt.at("stages"), 2);
  EXPECT_EQ(gantt.at("chunks"), 2);
  EXPECT_EQ(gantt.at("seconds"), step.seconds());
  EXPECT_EQ(gantt.at("actions").size(), 2U * 2 * 3 * 3);
  EXPECT_EQ(gantt.at("messages").size(), step.messages.size());
  EXPECT_EQ(gantt.at("actions")[0], json::parse(R"({"stage": 0, "action": "F0", "kind": "F",
      "micro_batch": 0, "part": 0, "begin": 0.0, "end": 1.0})"));
}

TEST(Gantt, AsTraceHasAProcessForEachStage) {
  const auto schedule = make_schedule({.kind = ScheduleKind::kDualPipeV}, 2, 4);
  const SimulatedStep step = simulate(schedule, CostModel::equal(4));
  const json trace = json::parse(gantt_trace(schedule, step));
  std::size_t passes = 0;
  std::size_t messages = 0;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const bool is_message = event.at("name").get<std::string>().starts_with("the ");
    ++(is_message ? messages : passes);
    EXPECT_LT(event.at("pid").get<int>(), 2);
  }
  std::size_t expected = 0;
  for (const auto& list : schedule.ranks) expected += list.size();
  EXPECT_EQ(passes, expected);
  EXPECT_EQ(messages, step.messages.size());
}

}  // namespace
}  // namespace ultra::pipeline_parallel
