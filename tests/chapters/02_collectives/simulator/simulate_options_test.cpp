#include "chapters/02_collectives/simulator/simulate_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::collectives {
namespace {

using test::parsed;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::vector<std::string>& arguments) {
  return test::message_of<ConfigError>([&] {
    const SimulateOptions options = parsed<SimulateOptions>(arguments);
    options.validate();
    static_cast<void>(options.request());
  });
}

TEST(SimulateOptions, NoFlagsSimulateNothing) {
  const SimulateOptions options = parsed<SimulateOptions>({});
  EXPECT_NO_THROW(options.validate());
  EXPECT_FALSE(options.simulates());
}

TEST(SimulateOptions, AMachineIsEnough) {
  const SimulateOptions options = parsed<SimulateOptions>({"--simulate", "h100"});
  EXPECT_NO_THROW(options.validate());
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
  const SimulateOptions options = parsed<SimulateOptions>(
      {"--simulate", "nodes=4,gpus=2", "--simulate-op", "all_gather", "--simulate-algorithms",
       "ring,recursive-doubling", "--simulate-sizes", "4KB,1MB", "--simulate-json",
       "--simulate-messages"});
  EXPECT_NO_THROW(options.validate());
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
  const auto sizes = [](const char* text) {
    return refusal({"--simulate", "h100", "--simulate-sizes", text});
  };
  EXPECT_THAT(sizes("big"), AllOf(HasSubstr("--simulate-sizes"), HasSubstr("'big'")));
  EXPECT_THAT(sizes("1KB,"), HasSubstr("--simulate-sizes: ''"));
  EXPECT_THAT(sizes("1KB:"), HasSubstr("--simulate-sizes: ''"));
  EXPECT_THAT(sizes("1KB:1MB:2:2"), AllOf(HasSubstr("too many parts"), HasSubstr("1KB:1GB")));
  EXPECT_THAT(sizes("1MB:1KB"), HasSubstr("at most the last"));
  EXPECT_THAT(sizes("0:1KB"), HasSubstr("above 0"));
  EXPECT_THAT(sizes("1KB:1MB:1"), AllOf(HasSubstr("above 1"), HasSubstr("'1'")));
  EXPECT_THAT(sizes("1KB:1MB:twice"), HasSubstr("'twice'"));
  EXPECT_THAT(sizes("1:1GB:1.01"), HasSubstr("more than 100 sizes"));
}

TEST(SimulateOptionsRefuse, NamesThatAreNone) {
  EXPECT_THAT(refusal({"--simulate", "b200"}), AllOf(HasSubstr("'b200'"), HasSubstr("h100")));
  EXPECT_THAT(refusal({"--simulate", "h100", "--simulate-op", "allreduce"}),
              AllOf(HasSubstr("'allreduce'"), HasSubstr("all_reduce")));
  EXPECT_THAT(refusal({"--simulate", "h100", "--simulate-algorithms", "ring,star"}),
              AllOf(HasSubstr("'star'"), HasSubstr("ring")));
}

TEST(SimulateOptionsRefuse, FlagsWithoutASimulation) {
  EXPECT_THAT(refusal({"--simulate-op", "broadcast"}),
              AllOf(HasSubstr("--simulate-op needs --simulate"), HasSubstr("h100,nodes=4")));
  EXPECT_THAT(refusal({"--simulate-algorithms", "ring"}), HasSubstr("--simulate-algorithms needs"));
  EXPECT_THAT(refusal({"--simulate-sizes", "4KB"}), HasSubstr("--simulate-sizes needs"));
  EXPECT_THAT(refusal({"--simulate-json"}), HasSubstr("--simulate-json needs"));
  EXPECT_THAT(refusal({"--simulate-messages"}), HasSubstr("--simulate-messages needs"));
  EXPECT_THAT(refusal({"--simulate", "h100", "--simulate-messages"}),
              HasSubstr("needs --simulate-json"));
}

}  // namespace
}  // namespace ultra::collectives
