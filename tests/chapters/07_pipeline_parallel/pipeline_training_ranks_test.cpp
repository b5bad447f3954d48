// The chapter's promise, through whole training runs: however layers are cut into stages and in
// whatever order micro-batches pass them, the ranks compute what one rank computes.
//
// Covers: chapters/07_pipeline_parallel/pipeline_parallel.hpp
// Covers: chapters/07_pipeline_parallel/execution/pipeline_links.hpp

#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "tests/chapters/07_pipeline_parallel/pipeline_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using namespace pipeline_parallel::test;

class PipelineTraining : public PipelineTest {
 protected:
  static void expect_equals_one_rank(const MeshCase& c) {
    MeshTest::expect_equals_one_rank(c, 1e-11);
  }

  static bool is_possible(const std::string& schedule, std::size_t pp, std::size_t micro_batches) {
    try {
      expect_possible(parse_schedule_choice(schedule), pp, micro_batches);
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  }
};

/// Those that make one update in a step.
std::vector<std::string> schedules() {
  std::vector<std::string> names = {"interleaved:3"};
  for (const ScheduleChoice& choice : all_schedules()) {
    if (!choice.row().updates) names.push_back(choice.str());
  }
  return names;
}

// Fewer micro-batches than stages, as many, more, and not a multiple.
TEST_F(PipelineTraining, EveryScheduleComputesWhatOneRankComputes) {
  for (const std::string& schedule : schedules()) {
    for (const auto& [pp, micro_batches] : std::vector<std::pair<std::size_t, std::size_t>>{
             {1, 2}, {2, 1}, {2, 4}, {2, 5}, {3, 2}, {3, 6}, {4, 4}}) {
      if (!is_possible(schedule, pp, micro_batches)) continue;
      if (parts_of(schedule, pp) > 8) continue;
      MeshCase c = draw({.pp = pp}, schedule, DType::kF64);
      cut(c, micro_batches);
      expect_equals_one_rank(c);
    }
  }
}

TEST_F(PipelineTraining, AnyMeshOfUpToEightRanksIsOneRank) {
  for (int trial = 0; trial < 6; ++trial) {
    const std::size_t pp = random.pick({2U, 2U, 3U, 4U});
    const std::size_t tp = 2 * pp <= 8 ? random.pick({1U, 2U}) : 1;
    const std::size_t cp = 2 * pp * tp <= 8 ? random.pick({1U, 2U}) : 1;
    const std::size_t dp = random.pick({std::size_t{1}, 8 / (pp * tp * cp)});
    std::vector<std::string> names = schedules();
    std::erase_if(names, [&](const std::string& name) { return parts_of(name, pp) > 8; });
    const std::string schedule = names[random.between(0, names.size() - 1)];
    MeshCase c = draw({.dp = dp, .pp = pp, .cp = cp, .tp = tp}, schedule, DType::kF64);
    cut(c, pp * random.between(1, 2));
    c.more = fmt::format("--zero {} {} {}", random.between(0, 3),
                         tp > 1 ? random.pick({"--sp on", "--sp off"}) : "",
                         random.pick({"", "--recompute full", "--recompute selective"}));
    expect_equals_one_rank(c);
  }
}

// Two tables on two ranks start alike, and the sum of their gradients keeps them so.
TEST_F(PipelineTraining, ATokenTableTiedToTheOutputMatrix) {
  for (const char* more : {"", "--zero 1", "--zero 2", "--zero 3", "--check-replicas 1"}) {
    const std::string schedule = random.pick({"1f1b", "interleaved:2", "zero-bubble-h1"});
    MeshCase c = draw({.dp = random.pick({1U, 2U}), .pp = 2}, schedule, DType::kF64);
    c.options.model.tied_embeddings = true;
    cut(c, 2);
    c.more = more;
    expect_equals_one_rank(c);
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
