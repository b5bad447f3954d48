// The chapter's promise, through whole training runs: however layers are cut into stages and in
// whatever order micro-batches pass them, the ranks compute what one rank computes.
//
// Covers: chapters/07_pipeline_parallel/pipeline_parallel.hpp
// Covers: chapters/07_pipeline_parallel/execution/pipeline_links.hpp
// Covers: chapters/07_pipeline_parallel/split_factory.hpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/chapters/07_pipeline_parallel/pipeline_run.hpp"

namespace ultra::pipeline_parallel {
namespace {

using namespace pipeline_parallel::test;
using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;

class PipelineTraining : public PipelineTest {
 protected:
  /// Losses, norms and weights within a relative distance of one rank's; the same on all ranks.
  static void expect_equals_one_rank(const PipelineCase& c, double relative = 1e-11) {
    on_mesh(c, [&](Communicator& world) {
      const RankRun run = ultra::test::run_of(c.setup(), world);
      const RankRun one = run_alone(world, c.options);
      expect_equals(world, run, one, relative);
    });
  }

  static RankRun outcome(const PipelineCase& c) {
    RankRun outcome;
    on_mesh(c, [&](Communicator& world) {
      const RankRun run = ultra::test::run_of(c.setup(), world);
      if (world.rank() == 0) outcome = run;
    });
    return outcome;
  }

  static std::size_t parts(const std::string& schedule, int pp) {
    const ScheduleChoice choice = parse_schedule_choice(schedule);
    return placement_of(choice, static_cast<std::size_t>(pp)).parts();
  }

  static bool is_possible(const std::string& schedule, int pp, std::size_t micro_batches) {
    try {
      expect_possible(parse_schedule_choice(schedule), static_cast<std::size_t>(pp), micro_batches);
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  }
};

const std::vector<std::string> kSchedules = {"naive",          "afab",          "1f1b",
                                             "interleaved:2",  "interleaved:3", "zero-bubble-h1",
                                             "zero-bubble-h2", "zb-v",          "dualpipe-v"};

// Fewer micro-batches than stages, as many, more, and not a multiple.
TEST_F(PipelineTraining, EveryScheduleComputesWhatOneRankComputes) {
  for (const std::string& schedule : kSchedules) {
    for (const auto& [pp, micro_batches] : std::vector<std::pair<int, std::size_t>>{
             {1, 2}, {2, 1}, {2, 4}, {2, 5}, {3, 2}, {3, 6}, {4, 4}}) {
      if (!is_possible(schedule, pp, micro_batches)) continue;
      if (parts(schedule, pp) > 8) continue;
      PipelineCase c = draw(1, pp, schedule, parts(schedule, pp), DType::kF64);
      cut(c, micro_batches);
      expect_equals_one_rank(c);
    }
  }
}

TEST_F(PipelineTraining, TheOrderOfThePassesChangesNoBit) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    PipelineCase c = draw(1, 2, "afab", 4, dtype);
    cut(c, 4);
    const RankRun afab = outcome(c);
    for (const char* schedule : {"naive", "1f1b", "interleaved:2", "zero-bubble-h1"}) {
      c.schedule = schedule;
      const RankRun other = outcome(c);
      EXPECT_EQ(losses_and_norms(other.result), losses_and_norms(afab.result)) << schedule;
      EXPECT_EQ(other.weights, afab.weights) << schedule;
    }
  }
}

TEST_F(PipelineTraining, MeshesWithEveryStageOfZero) {
  for (const char* zero : {"0", "1", "2", "3"}) {
    const std::string schedule =
        random.pick({"afab", "1f1b", "interleaved:2", "zero-bubble-h2", "zb-v", "dualpipe-v"});
    PipelineCase c = draw(2, 2, schedule, parts(schedule, 2), DType::kF64);
    cut(c, 2 * random.between(1, 2));
    c.more = fmt::format("--zero {} --overlap {}", zero, random.pick({"none", "bucketed"}));
    expect_equals_one_rank(c);
  }
}

TEST_F(PipelineTraining, MeshesOfEveryAxis) {
  using Mesh = std::tuple<int, int, int, int>;  // dp, pp, cp, tp
  for (const auto& [dp, pp, cp, tp] : std::vector<Mesh>{
           {1, 2, 1, 2}, {1, 2, 2, 1}, {2, 2, 1, 2}, {2, 2, 2, 1}, {1, 2, 2, 2}, {1, 4, 1, 2}}) {
    const std::string schedule = random.pick({"1f1b", "interleaved:2", "zero-bubble-h1", "zb-v"});
    PipelineCase c = draw(dp, pp, schedule, parts(schedule, pp), DType::kF64);
    if (tp > 1) share_heads(c, tp);
    c.cp = cp;
    if (cp > 1) c.options.model.max_seq_len = 8 * random.between(1, 2);
    c.more = tp > 1 ? random.pick({"--sp on", "--sp off"}) : "";
    cut(c, static_cast<std::size_t>(pp) * random.between(1, 2));
    c.more += fmt::format(" --zero {}", random.between(0, 2));
    expect_equals_one_rank(c);
  }
}

TEST_F(PipelineTraining, AnyMeshOfUpToEightRanksIsOneRank) {
  for (int trial = 0; trial < 6; ++trial) {
    const int pp = random.pick({2, 2, 3, 4});
    const int tp = 2 * pp <= 8 ? random.pick({1, 2}) : 1;
    const int cp = 2 * pp * tp <= 8 ? random.pick({1, 2}) : 1;
    const int dp = random.pick({1, 8 / (pp * tp * cp)});
    std::vector<std::string> schedules = kSchedules;
    std::erase_if(schedules, [&](const std::string& name) { return parts(name, pp) > 8; });
    const std::string schedule = schedules[random.between(0, schedules.size() - 1)];
    PipelineCase c = draw(dp, pp, schedule, parts(schedule, pp), DType::kF64);
    if (tp > 1) share_heads(c, tp);
    c.cp = cp;
    if (cp > 1) c.options.model.max_seq_len = 8 * random.between(1, 2);
    cut(c, static_cast<std::size_t>(pp) * random.between(1, 2));
    c.more = fmt::format("--zero {} {} {}", random.between(0, 3),
                         tp > 1 ? random.pick({"--sp on", "--sp off"}) : "",
                         random.pick({"", "--recompute full", "--recompute selective"}));
    expect_equals_one_rank(c);
  }
}

TEST_F(PipelineTraining, RecomputationAndOffloadedStates) {
  for (const char* more :
       {"--recompute full", "--recompute full --recompute-every 2", "--recompute selective",
        "--zero 1 --offload optimizer", "--zero 3 --offload optimizer+params --prefetch 2"}) {
    const std::string schedule = random.pick({"1f1b", "interleaved:2", "zero-bubble-h1", "zb-v"});
    PipelineCase c = draw(random.pick({1, 2}), 2, schedule, parts(schedule, 2), DType::kF64);
    cut(c, 4);
    c.more = more;
    expect_equals_one_rank(c);
  }
}

TEST_F(PipelineTraining, LayersAsTheUserDealsThem) {
  PipelineCase c = draw(1, 3, "1f1b", 6, DType::kF64);
  c.options.model.num_layers = 6;
  cut(c, 4);
  for (const char* split : {"1,4,1", "3,2,1", "measured"}) {
    c.more = fmt::format("--stage-split {}", split);
    expect_equals_one_rank(c);
  }
}

// Two tables on two ranks start alike, and the sum of their gradients keeps them so.
TEST_F(PipelineTraining, ATokenTableTiedToTheOutputMatrix) {
  for (const char* more : {"", "--zero 1", "--zero 2", "--zero 3", "--check-replicas 1"}) {
    const std::string schedule = random.pick({"1f1b", "interleaved:2", "zero-bubble-h1"});
    PipelineCase c = draw(random.pick({1, 2}), 2, schedule, parts(schedule, 2), DType::kF64);
    c.options.model.tied_embeddings = true;
    cut(c, 2);
    c.more = more;
    expect_equals_one_rank(c);
  }
}

// One flag away from what trains: a table whose two ends nobody would add up.
TEST_F(PipelineTraining, ATiedTableThatNobodyWouldAddUpIsRefusedInWords) {
  PipelineCase c = draw(1, 2, "zb-v", 4, DType::kF64);
  c.options.model.tied_embeddings = true;
  c.options.clip_norm = 0;
  cut(c, 2);
  const auto refusal = [&](const char* schedule) {
    c.schedule = schedule;
    return ultra::test::message_of<ConfigError>([&] { static_cast<void>(c.setup()); });
  };
  EXPECT_THAT(refusal("zb-v"), HasSubstr("a tied token table does not go together with --schedule "
                                         "zb-v: the first rank has both ends"));
  EXPECT_THAT(refusal("dualpipe-v"), HasSubstr("both ends of the model"));
  EXPECT_THAT(refusal("pipedream-async"), HasSubstr("a tied token table does not go together"));
}

TEST_F(PipelineTraining, ReplicasWithUnequalShares) {
  PipelineCase c = draw(2, 2, "1f1b", 2, DType::kF64);
  c.options.global_batch = 5;
  c.micro_batch = 1;
  expect_equals_one_rank(c);
  c.more = "--zero 3";
  expect_equals_one_rank(c);
}

// 20 steps in f32, as the workbook promises for every layout.
TEST_F(PipelineTraining, InF32LossesStayWithinAHundredThousandth) {
  for (const char* schedule : {"1f1b", "zb-v"}) {
    PipelineCase c = draw(1, 2, schedule, parts(schedule, 2), DType::kF32);
    cut(c, 4);
    c.options.steps = 20;
    on_mesh(c, [&](Communicator& world) {
      expect_near_losses(ultra::test::run_of(c.setup(), world), run_alone(world, c.options), 1e-5);
    });
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
