// Covers: chapters/11_five_d/profile/machine_profile.hpp

#include "chapters/11_five_d/profile/machine_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chapters/11_five_d/planner/cluster/cluster_file.hpp"
#include "tests/support/program.hpp"

namespace ultra::profile {
namespace {

using nlohmann::json;

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
  const planner::Cluster cluster =
      planner::read_cluster_file(folder.write("machine.json", cluster_file(profile)));
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
      json::parse(answer_to("--profile-machine --ranks 2 --link latency-us=2000,gbps=0.5"));
  EXPECT_EQ(profile.at("gpus_per_node"), 2);
  EXPECT_GT(profile.at("gpu").at("memory_bandwidth").get<double>(), 1e8);
  for (const json& product : profile.at("gpu").at("measured_products")) {
    EXPECT_GT(product.at("flops").get<double>(), 0.0);
  }
  EXPECT_GT(profile.at("gpu").at("efficiency").at("memory").get<double>(), 0.0);
  EXPECT_GT(profile.at("gpu").at("flash_attention").get<double>(), 0.0);
  EXPECT_GE(profile.at("straggler").get<double>(), 0.0);
  EXPECT_FALSE(profile.at("ranks_copy").get<bool>());
  EXPECT_GE(profile.at("intra").at("latency").get<double>(), 2e-3);
  EXPECT_LE(profile.at("intra").at("bandwidth").get<double>(), 0.55e9);
}

TEST_F(ProfileProgram, OneQuestionAtATime) {
  refused({{"--profile-machine --combinations", {"--profile-machine", "--combinations"}}});
}

}  // namespace
}  // namespace ultra::profile
