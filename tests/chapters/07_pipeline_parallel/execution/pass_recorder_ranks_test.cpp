// What executed schedules leave behind.
//
// Covers: chapters/07_pipeline_parallel/execution/pass_recorder.hpp
// Covers: chapters/07_pipeline_parallel/execution/action_log.hpp

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "chapters/07_pipeline_parallel/execution/pass_recorder.hpp"
#include "tests/chapters/07_pipeline_parallel/pipeline_run.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/programs/process.hpp"

namespace ultra::pipeline_parallel {
namespace {

using namespace pipeline_parallel::test;
using nlohmann::json;

class ExecutedSchedules : public PipelineTest {
 protected:
  std::string any_schedule() {
    return random.pick({"naive", "afab", "1f1b", "interleaved:2", "zero-bubble-h1",
                        "zero-bubble-h2", "zb-v", "dualpipe-v"});
  }

  static std::vector<std::size_t> sizes(const MeshCase& c) {
    train::TrainOptions options = c.options;
    options.micro_batch = c.micro_batch;
    return data_parallel::micro_batch_sizes(options, c.axes.dp);
  }

  static PipelineSchedule schedule(const MeshCase& c) {
    return make_schedule(parse_schedule_choice(ultra::test::words_of(c.layout).back()), c.axes.pp,
                         sizes(c).size());
  }

  ultra::test::TemporaryFolder folder;
};

// The chart of a run: every action of the schedule once, in its rank's order, after what it needs.
TEST_F(ExecutedSchedules, LeaveAGanttChart) {
  for (int trial = 0; trial < 4; ++trial) {
    const Axes axes{.dp = random.pick({1U, 2U}), .pp = random.pick({2U, 3U, 4U})};
    MeshCase c = draw(axes, any_schedule(), random.pick({DType::kF32, DType::kF64}));
    c.options.steps = 2;
    cut(c, axes.pp * random.between(1, 2));
    const std::string path = folder.path("gantt.json");
    c.more = "--executed-gantt " + path;
    if (summaries(c).empty()) continue;
    const json chart = json::parse(ultra::test::read_file(path));
    const PipelineSchedule list = schedule(c);
    EXPECT_EQ(chart.at("schedule"), list.name);
    EXPECT_EQ(chart.at("stages"), axes.pp);
    EXPECT_EQ(chart.at("micro_batches"), list.micro_batches);
    std::map<std::size_t, std::vector<std::string>> names;
    std::map<std::tuple<std::string, std::size_t, std::size_t>, double> ends;  // kind, part, batch
    for (const json& action : chart.at("actions")) {
      EXPECT_LE(action.at("begin").get<double>(), action.at("end").get<double>());
      EXPECT_GE(action.at("begin").get<double>(), 0);
      names[action.at("stage")].push_back(action.at("action"));
      ends[{action.at("kind"), action.at("part"), action.at("micro_batch")}] = action.at("end");
    }
    for (std::size_t stage = 0; stage < list.ranks.size(); ++stage) {
      std::vector<std::string> expected;
      for (const train::Action& action : list.ranks[stage]) expected.push_back(action.str());
      EXPECT_EQ(names[stage], expected);
    }
    for (const json& action : chart.at("actions")) {
      const std::size_t part = action.at("part");
      if (action.at("kind") != "F" || part == 0) continue;
      EXPECT_GE(action.at("begin").get<double>(),
                (ends.at({"F", part - 1, action.at("micro_batch")})))
          << action;
    }
    for (std::size_t part = 0; part < list.placement.parts(); ++part) {
      EXPECT_GT(chart.at("costs").at("F").at(part).get<double>(), 0);
    }
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
