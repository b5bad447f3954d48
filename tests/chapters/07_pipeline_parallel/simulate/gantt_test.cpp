// Charts of simulated and of measured steps.
//
// Covers: chapters/07_pipeline_parallel/simulate/gantt.hpp
// Covers: chapters/07_pipeline_parallel/simulate/cost_model.hpp

#include <nlohmann/json.hpp>

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"
#include "chapters/07_pipeline_parallel/simulate/gantt.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "tests/support/toolbox.hpp"

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

std::string refusal_of_times(const std::string& gantt) {
  return ultra::test::message_of<ConfigError>(
      [&] { static_cast<void>(costs_of_gantt(gantt, "gantt.json")); });
}

json two_parts() {
  return {{"stages", 2},
          {"chunks", 1},
          {"unit", "s"},
          {"costs", {{"F", {1, 2}}, {"BW", {0, 0}}, {"B", {3, 4}}, {"W", {5, 6}}, {"U", {7, 8}}}}};
}

TEST(MeasuredGantt, RefusesOtherTexts) {
  for (const char* text : {"", "F0 BW0", "{}", "[1]", R"({"costs": 3})"}) {
    EXPECT_THAT(refusal_of_times(text),
                HasSubstr("'gantt.json' has no costs of a pipeline's parts. Let a "
                          "run write it: --pp 4 --executed-gantt FILE."))
        << text;
  }
  const std::string deep(1U << 17U, '[');
  EXPECT_THAT(refusal_of_times(R"({"costs": )" + deep + std::string(deep.size(), ']') + "}"),
              HasSubstr("has no costs"));
  EXPECT_THAT(refusal_of_times(R"({"costs": {"F": [[1]]}})"),
              HasSubstr("number 1 of its \"F\" is a list"));
}

TEST(MeasuredGantt, RefusesTimesThatNoPassTakes) {
  for (const char* list : {"F", "BW", "B", "W", "U"}) {
    for (const auto& [value, text] :
         std::vector<std::pair<json, std::string>>{{-1, "-1"},
                                                   {1e10, "1e+10"},
                                                   {1e308, "1e+308"},
                                                   {"x", "'\"x\"'"},
                                                   {nullptr, "'null'"}}) {
      json gantt = two_parts();
      gantt["costs"][list][1] = value;
      EXPECT_THAT(refusal_of_times(gantt.dump()),
                  AllOf(StartsWith("'gantt.json': number 2 of its \"" + std::string(list) +
                                   "\" is " + text),
                        HasSubstr("a number from 0 to 1e+09")));
    }
  }
  json gantt = two_parts();
  for (const char* list : {"F", "B", "W"}) gantt["costs"][list][1] = 0;
  EXPECT_THAT(refusal_of_times(gantt.dump()),
              HasSubstr("number 2 of \"F\", \"BW\", \"B\" and \"W\" are 0"));
  gantt["costs"]["F"][1] = 1e-9;
  EXPECT_EQ(costs_of_gantt(gantt.dump(), "gantt.json").parts[1].together(), 1e-9);
}

TEST(MeasuredGantt, RefusesListsOfOtherLengths) {
  json gantt = two_parts();
  gantt["costs"].erase("W");
  EXPECT_THAT(refusal_of_times(gantt.dump()), HasSubstr("its \"costs\" lack \"W\""));
  for (const json& list : {json(3), json::array()}) {
    gantt["costs"]["W"] = list;
    EXPECT_THAT(refusal_of_times(gantt.dump()), HasSubstr("its \"W\" is no list of seconds"));
  }
  gantt["costs"]["W"] = {5};
  EXPECT_THAT(refusal_of_times(gantt.dump()),
              HasSubstr("\"F\" has 2, \"BW\" has 2, \"B\" has 2, \"W\" has 1, \"U\" has 2"));
}

TEST(MeasuredGantt, RefusesWhatTheRestOfTheFileContradicts) {
  for (const auto& [key, value] : std::vector<std::pair<const char*, json>>{
           {"stages", 4}, {"stages", 0}, {"stages", -2}, {"stages", "2"}, {"chunks", 2}}) {
    json gantt = two_parts();
    gantt[key] = value;
    EXPECT_THAT(refusal_of_times(gantt.dump()), HasSubstr("times of 2 parts, and its \"stages\""))
        << key;
  }
  json gantt = two_parts();
  gantt["unit"] = "ms";
  EXPECT_THAT(refusal_of_times(gantt.dump()), HasSubstr("its \"unit\" is not \"s\", for seconds"));
  gantt = two_parts();
  gantt["stages"] = 1;
  gantt["chunks"] = 2;
  EXPECT_EQ(costs_of_gantt(gantt.dump(), "gantt.json").parts.size(), 2U);
}

}  // namespace
}  // namespace ultra::pipeline_parallel
