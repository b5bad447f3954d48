#include "chapters/02_collectives/simulator/simulate_options.hpp"

#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

void expect_no_simulation(const std::vector<test::Refusal>& rows) {
  test::expect_refused<SimulateOptions>(rows, [](const SimulateOptions& options) {
    options.validate();
    static_cast<void>(options.request());
  });
}

TEST(SimulateOptions, NoFlagsSimulateNothing) {
  const auto options = test::valid<SimulateOptions>("");
  EXPECT_FALSE(options.simulates());
}

TEST(SimulateOptions, AMachineIsEnough) {
  const auto options = test::valid<SimulateOptions>("--simulate h100");
  ASSERT_TRUE(options.simulates());
  const SimulationRequest request = options.request();
  EXPECT_EQ(request.topology.ranks(), 8);
  EXPECT_EQ(request.op, OpKind::kAllReduce);
  EXPECT_TRUE(request.algorithms.empty());
  EXPECT_EQ(request.sizes.front(), 1000u);
  EXPECT_EQ(request.sizes.back(), 1'000'000'000u);
  EXPECT_EQ(request.record, Record::kTotals);
}

TEST(SimulateOptions, ReachTheRequest) {
  const auto options = test::valid<SimulateOptions>(
      "--simulate nodes=4,gpus=2 --simulate-op all_gather --simulate-algorithms "
      "ring,recursive-doubling --simulate-sizes 4KB,1MB --simulate-json --simulate-messages");
  const SimulationRequest request = options.request();
  EXPECT_EQ(request.topology.nodes, 4);
  EXPECT_EQ(request.op, OpKind::kAllGather);
  EXPECT_THAT(request.algorithms, ElementsAre("ring", "recursive-doubling"));
  EXPECT_THAT(request.sizes, ElementsAre(4000u, 1'000'000u));
  EXPECT_EQ(request.record, Record::kMessages);
}

TEST(ParseSizes, TakesRangesAndLists) {
  EXPECT_THAT(parse_sizes("1KB:100KB"), ElementsAre(1000u, 10000u, 100000u));
  EXPECT_THAT(parse_sizes("1KiB:8KiB:2"), ElementsAre(1024u, 2048u, 4096u, 8192u));
  EXPECT_THAT(parse_sizes("10:45:1.5"), ElementsAre(10u, 15u, 23u, 34u)) << "10 x 1.5^k";
  EXPECT_THAT(parse_sizes("1MB:1MB"), ElementsAre(1'000'000u));
  EXPECT_THAT(parse_sizes("1MB,4KB,1MB"), ElementsAre(4000u, 1'000'000u));
  EXPECT_THAT(parse_sizes("64"), ElementsAre(64u));
}

TEST(SimulateOptionsRefuse, SizesThatAreNone) {
  const std::string sizes = "--simulate h100 --simulate-sizes ";
  expect_no_simulation({{sizes + "big", {"--simulate-sizes", "'big'"}},
                        {sizes + "1KB,", {"--simulate-sizes: ''"}},
                        {sizes + "1KB:", {"--simulate-sizes: ''"}},
                        {sizes + "1KB:1MB:2:2", {"too many parts", "1KB:1GB"}},
                        {sizes + "1MB:1KB", {"at most the last"}},
                        {sizes + "0:1KB", {"above 0"}},
                        {sizes + "1KB:1MB:1", {"above 1", "'1'"}},
                        {sizes + "1KB:1MB:twice", {"'twice'"}},
                        {sizes + "1:1GB:1.01", {"more than 100 sizes"}}});
}

TEST(SimulateOptionsRefuse, NamesThatAreNone) {
  expect_no_simulation({{"--simulate b200", {"'b200'", "h100"}},
                        {"--simulate h100 --simulate-op allreduce", {"'allreduce'", "all_reduce"}},
                        {"--simulate h100 --simulate-algorithms ring,star", {"'star'", "ring"}}});
}

TEST(SimulateOptionsRefuse, FlagsWithoutASimulation) {
  expect_no_simulation(
      {{"--simulate-op broadcast", {"--simulate-op needs --simulate", "h100,nodes=4"}},
       {"--simulate-algorithms ring", {"--simulate-algorithms needs"}},
       {"--simulate-sizes 4KB", {"--simulate-sizes needs"}},
       {"--simulate-json", {"--simulate-json needs"}},
       {"--simulate-messages", {"--simulate-messages needs"}},
       {"--simulate h100 --simulate-messages", {"needs --simulate-json"}}});
}

}  // namespace
}  // namespace ultra::collectives
