// A machine's profile: what is timed, and what the planner makes of it.
//
// Covers: chapters/11_five_d/profile/machine_profile.hpp

#include <atomic>
#include <nlohmann/json.hpp>

#include "chapters/11_five_d/profile/machine_profile.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/replay/cluster/cluster_file.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::profile {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;
using ultra::test::expect_same_on_all;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

TEST(Timing, ACallTakesWhatTheSlowestRankTakes) {
  run_ranks(2, [](Communicator& world) {
    const double least = 0.003 * (world.rank() + 1);
    const double seconds = seconds_of(world, [&] { sleep_for(least); });
    EXPECT_GE(seconds, 0.006);
    expect_same_on_all(world, {seconds});
  });
}

TEST(Timing, ShortCallsAreMadeOftenAndCountOnce) {
  run_ranks(1, [](Communicator& world) {
    const auto begin = Clock::now();
    int calls = 0;
    const double seconds = seconds_of(world, [&] { ++calls; });
    EXPECT_GT(calls, 9);  // as many as there are rounds
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds * calls, seconds_since(begin));  // of one call, and the fastest
  });
}

TEST(Timing, ExchangesAreMadeAsOftenOnEveryRank) {
  run_ranks(2, [](Communicator& world) {
    int made = 0;
    const double seconds = exchange_seconds(
        world,
        [&] {
          ++made;
          if (world.rank() == 1) sleep_for(0.002);
          world.barrier().wait();
        },
        4);
    EXPECT_EQ(made % 4, 0);
    EXPECT_GE(seconds, 0.002);
    expect_same_on_all(world, {seconds});
    expect_same_on_all(world, {static_cast<double>(made)});
  });
}

TEST(Timing, RanksThatWaitForASlowerOneDeviate) {
  std::atomic<double> shorter = 0;  // what rank 0 took in this round
  run_ranks(2, [&](Communicator& world) {
    // One works at least three times as long, however long the other one slept: a half more than the
    // mean, over sqrt(2 ln 2).
    const double deviation = deviation_of(world, [&] {
      const auto begin = Clock::now();
      if (world.rank() == 0) {
        sleep_for(0.01);
        shorter = seconds_since(begin);
        return;
      }
      while (shorter == 0) sleep_for(0.001);
      sleep_for(3 * shorter.exchange(0) - seconds_since(begin));
    });
    EXPECT_GT(deviation, 0.1);
    EXPECT_LT(deviation, 1 / 1.17);  // never more than one rank alone
    expect_same_on_all(world, {deviation});
  });
  run_ranks(1, [](Communicator& world) { EXPECT_EQ(deviation_of(world, [] {}), 0); });
}

class ProfileProgram : public ultra::test::ProgramTest {
 protected:
  ProfileProgram() : ProgramTest("11_five_d") {}
};

TEST(MachineProfile, IsAClusterFileForThePlanner) {
  const MachineProfile profile{
      .products = {{.m = 2, .k = 3, .n = 4, .flops = 5e9}, {.m = 8, .k = 3, .n = 4, .flops = 7e9}},
      .memory_bandwidth = 2e10,
      .elementwise = 5e9,
      .attention_flops = 3.5e9,
      .straggler = 0.01,
      .memory_bytes = 3e9,
      .call_seconds = 1e-6,
      .ranks_copy = true,
      .network_steals = 0.25,
      .ranks_per_node = 2,
      .intra = {.latency = 2e-6, .bandwidth = 4e9},
      .inter = {.latency = 3e-5, .bandwidth = 1e8}};
  const ultra::test::TemporaryFolder folder;
  const replay::Cluster cluster =
      replay::read_cluster_file(folder.write("machine.json", cluster_file(profile)));
  EXPECT_EQ(cluster.gpu.peak_flops, 7e9);
  EXPECT_EQ(cluster.gpu.memory_bandwidth, 2e10);
  EXPECT_EQ(cluster.gpu.memory_bytes, 3e9);
  EXPECT_EQ(cluster.gpu.efficiency.memory, 0.25);
  EXPECT_EQ(cluster.gpu.flash_attention, 0.5);
  EXPECT_EQ(cluster.straggler, 0.01);
  EXPECT_TRUE(cluster.ranks_copy);
  EXPECT_EQ(cluster.network_steals, 0.25);
  EXPECT_EQ(cluster.gpu.measured_products.size(), 2U);
  EXPECT_EQ(cluster.gpus_per_node, 2);
  EXPECT_EQ(cluster.intra.bandwidth, 4e9);
  EXPECT_EQ(cluster.inter.bandwidth, 1e8);
}

TEST_F(ProfileProgram, OneQuestionAtATime) {
  refused({{"--profile-machine --combinations", {"--profile-machine", "--combinations"}}});
}

TEST(MeasuredParts, AllRanksAgreeOnWhatSumsSteal) {
  run_ranks(4, [](Communicator& world) {
    const Communicator pair = world.split([](int rank) { return rank % 2; }, "pair");
    const double stolen = measure_stolen(world, pair, DType::kF32);
    EXPECT_GE(stolen, 0);
    EXPECT_LE(stolen, 1);
    expect_same_on_all(world, {stolen});
  });
}

}  // namespace
}  // namespace ultra::profile
