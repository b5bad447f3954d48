// A machine's profile: what is timed, and what the planner makes of it.
//
// Covers: chapters/11_five_d/profile/machine_profile.hpp

#include <atomic>
#include <nlohmann/json.hpp>

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/11_five_d/profile/machine_profile.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/replay/cluster/cluster_file.hpp"
#include "common/tensor/tensor.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::profile {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Fails on a rank that has another number than rank 0. Collective.
void expect_same_on_all(const Communicator& world, double number) {
  const Tensor first =
      Tensor::from<double>(Device::cpu(), {1}, std::vector<double>{number}).clone();
  world.broadcast(first, 0).wait();
  EXPECT_EQ(first.to_vector().front(), number) << "rank " << world.rank();
}

TEST(Timing, ACallTakesWhatTheSlowestRankTakes) {
  run_ranks(2, [](Communicator& world) {
    const double least = 0.003 * (world.rank() + 1);
    const double seconds = seconds_of(world, [&] { sleep_for(least); });
    EXPECT_GE(seconds, 0.006);
    expect_same_on_all(world, seconds);
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
    expect_same_on_all(world, seconds);
    expect_same_on_all(world, made);
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
    expect_same_on_all(world, deviation);
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

TEST_F(ProfileProgram, MeasuresTheRanksAndALinkThatIsSlowed) {
  const json profile =
      json::parse(answer_to("--profile-machine --ranks 2 --hidden 64 --seq 128 --micro-batch 4 "
                            "--link latency-us=2000,gbps=0.5"));
  EXPECT_EQ(profile.at("gpus_per_node"), 2);
  EXPECT_GT(profile.at("gpu").at("memory_bandwidth").get<double>(), 1e8);
  for (const json& product : profile.at("gpu").at("measured_products")) {
    EXPECT_GT(product.at("flops").get<double>(), 0.0);
  }
  EXPECT_GT(profile.at("gpu").at("efficiency").at("memory").get<double>(), 0.0);
  EXPECT_GT(profile.at("gpu").at("flash_attention").get<double>(), 0.0);
  EXPECT_GE(profile.at("straggler").get<double>(), 0.0);
  EXPECT_FALSE(profile.at("ranks_copy").get<bool>());
  const double latency = profile.at("intra").at("latency").get<double>();
  EXPECT_GE(latency, 2e-3);
  // Both together say how long a message took, which no load makes shorter.
  const double bytes = (4.0 * 64 - 1) * 64 * 4;
  EXPECT_GE(latency + bytes / profile.at("intra").at("bandwidth").get<double>(),
            2e-3 + bytes / (0.5e9 / 8));  // 0.5 gigabits
}

TEST_F(ProfileProgram, OneQuestionAtATime) {
  refused({{"--profile-machine --combinations", {"--profile-machine", "--combinations"}}});
}

BlockExtents small_block(DType dtype) {
  BlockExtents block{.model = {}, .batch = 2, .seq = 16, .dtype = dtype};
  block.model.hidden_size = 32;
  block.model.num_heads = 4;
  block.model.num_kv_heads = 2;
  block.model.ffn_hidden_size = 48;
  return block;
}

TEST(MeasuredParts, AreSpeedsForEitherType) {
  run_ranks(2, [](Communicator& world) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      for (const double speed : {measure_attention(world, small_block(dtype)),
                                 measure_elementwise(world, small_block(dtype))}) {
        EXPECT_GT(speed, 0);
        EXPECT_TRUE(std::isfinite(speed));
      }
    }
  });
}

TEST(MeasuredParts, ALinkIsNoFasterThanItIs) {
  RankOptions options;
  options.algorithms = std::make_shared<const collectives::BookAlgorithms>();
  options.link = ultra::LinkSpeed{.latency = 1e-3, .bytes_per_second = 0.02e9};
  run_ranks(
      3,
      [](Communicator& world) {
        BlockExtents block = small_block(DType::kF32);
        block.batch = 8;
        block.seq = 384;  // 128 tokens of 8 sequences for each rank: 128 KB, 6.5 ms
        const LinkSpeed link = measure_exchange(world, world, block);
        EXPECT_GE(link.latency, 1e-3);
        EXPECT_GT(link.bandwidth, 0);
        // Both together say how long a message took, which no load makes shorter.
        const double bytes = (8.0 * 128 - 1) * 32 * 4;
        EXPECT_GE(link.latency + bytes / link.bandwidth, 1e-3 + bytes / 0.02e9);
      },
      options);
}

TEST(MeasuredParts, AllRanksAgreeOnWhatSumsSteal) {
  run_ranks(4, [](Communicator& world) {
    const Communicator pair = world.split([](int rank) { return rank % 2; }, "pair");
    const double stolen = measure_stolen(world, pair, DType::kF32);
    EXPECT_GE(stolen, 0);
    EXPECT_LE(stolen, 1);
    const Tensor all = Tensor::zeros(Device::cpu(), {4}, DType::kF64);
    world.all_gather(Tensor::from<double>(Device::cpu(), {1}, std::vector{stolen}).clone(), all)
        .wait();
    EXPECT_THAT(all.to_vector(), ::testing::Each(stolen));
  });
}

}  // namespace
}  // namespace ultra::profile
