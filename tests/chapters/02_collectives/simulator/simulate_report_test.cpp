#include "chapters/02_collectives/simulator/simulate_report.hpp"

#include <nlohmann/json.hpp>

#include "chapters/02_collectives/collectives.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

SimulationRequest request_for(const char* machine, std::vector<std::string> algorithms,
                              std::vector<std::size_t> sizes, OpKind op = OpKind::kAllReduce) {
  return {.topology = parse_topology(machine),
          .op = op,
          .algorithms = std::move(algorithms),
          .sizes = std::move(sizes)};
}

double bus_gb(const SimulationReport& report, const char* algorithm, std::size_t bytes) {
  const SimulatedRun* run = report.find(algorithm, bytes);
  if (run == nullptr) return -1.0;
  const double n = report.request.topology.ranks();
  return static_cast<double>(bytes) / run->result.seconds * 2 * (n - 1) / n / 1e9;
}

// nccl-tests issue 212: the ring on 8 H100 reaches about 370 GB/s of bus bandwidth. The preset has
// links of that speed; 1 GB is large enough for the latency not to matter: 14 x 3.4 us of 4.78 ms.
TEST(SimulateCollective, ALargeRingRunsAtTheBandwidthOfItsLinks) {
  const SimulationReport report =
      simulate_collective(request_for("h100", {"ring"}, {1'000'000'000}));
  EXPECT_NEAR(bus_gb(report, "ring", 1'000'000'000), 370.0, 4.0);
  const SimulatedRun& run = report.runs.front();
  EXPECT_NEAR(run.result.seconds, 4.7773e-3, 5e-8) << "1.75 GB / 370 GB/s + 14 x 3.4 us";
  ASSERT_TRUE(run.closed_form_seconds.has_value());
  EXPECT_NEAR(*run.closed_form_seconds, run.result.seconds, 1e-9 * run.result.seconds);
}

// 64 nodes, 2 (n-1) messages between nodes of 14 us each: small arrays are all latency, and 2 log n
// rounds beat 2 (n-1).
TEST(SimulateCollective, SmallArraysAreLatency) {
  const SimulationReport report =
      simulate_collective(request_for("h100,nodes=8", {"ring", "rabenseifner"}, {512}));
  EXPECT_NEAR(report.find("ring", 512)->result.seconds, 2 * 63 * 14e-6, 1e-6);
  EXPECT_NEAR(report.find("rabenseifner", 512)->result.seconds, 2 * (3 * 14e-6 + 3 * 3.4e-6), 1e-6);
  EXPECT_EQ(report.fastest(512)->algorithm, "rabenseifner");
}

// Ring and pairwise exchange add the same latencies, transfers and reductions in another order.
TEST(SimulateCollective, NamesTheFirstOfThoseThatDifferByRounding) {
  const SimulationReport report = simulate_collective(
      request_for("h100,gpus=7,gamma=3e-13", {"ring", "pairwise"}, {700, 7'000, 70'000, 700'000}));
  for (const std::size_t bytes : report.request.sizes) {
    EXPECT_EQ(report.fastest(bytes)->algorithm, "ring") << bytes;
  }
  EXPECT_TRUE(report.crossovers.empty());
}

// One NIC of 400 GB/s for 8 ranks. In natural order one rank per node sends through it; interleaved,
// all eight do: 8 times the bytes.
TEST(SimulateCollective, ABadRankOrderCostsTheNics) {
  const std::size_t bytes = 1 << 30;
  const auto ring = [&](const char* machine) {
    SimulationReport report = simulate_collective(request_for(machine, {"ring"}, {bytes}));
    return report.runs.front().result;
  };
  const SimulationResult natural = ring("h100-striped,nodes=4");
  const SimulationResult interleaved = ring("h100-striped,nodes=4,order=interleaved");
  EXPECT_EQ(interleaved.nics[0].sent_bytes, 8 * natural.nics[0].sent_bytes);
  EXPECT_GT(interleaved.seconds, 4 * natural.seconds);
}

// 8 ranks: ring 14 alpha + 7/4 S beta, recursive doubling 3 alpha + 3 S beta.
TEST(SimulateCollective, FindsTheCrossover) {
  const SimulationReport report = simulate_collective(
      request_for("h100", {"recursive-doubling", "ring"}, {1024, 32'768'000, 1'024'000'000}));
  ASSERT_EQ(report.crossovers.size(), 1u);
  const Crossover& crossover = report.crossovers.front();
  EXPECT_EQ(crossover.below, "recursive-doubling");
  EXPECT_EQ(crossover.above, "ring");
  const double expected = 11 * 3.4e-6 * 370e9 / 1.25;
  EXPECT_NEAR(crossover.bytes, expected, 1e-6 * expected) << "11.07 MB";
}

TEST(SimulateCollective, TakesAllAlgorithmsThatSuit) {
  const SimulationReport report = simulate_collective(request_for("h100,gpus=6", {}, {6000}));
  std::vector<std::string> names;
  for (const SimulatedRun& run : report.runs) names.push_back(run.algorithm);
  EXPECT_THAT(names, testing::Contains("ring"));
  EXPECT_THAT(names, Not(testing::Contains("halving-doubling")));
  ASSERT_FALSE(report.skipped.empty());
  EXPECT_EQ(report.skipped.front().algorithm, "halving-doubling");
  EXPECT_THAT(report.skipped.front().reason, HasSubstr("power of two"));
}

TEST(SimulateCollective, HasARunForEveryCollective) {
  for (const OpKind op : collective_ops()) {
    const SimulationReport report =
        simulate_collective(request_for("h100,nodes=2", {}, {4096}, op));
    EXPECT_EQ(report.runs.size() + report.skipped.size(), algorithms(op).size()) << to_string(op);
    for (const SimulatedRun& run : report.runs) EXPECT_GT(run.result.seconds, 0.0) << run.algorithm;
    EXPECT_THAT(format_simulation(report), HasSubstr(std::string(to_string(op)))) << to_string(op);
  }
}

TEST(SimulateCollective, RoundsSizesUp) {
  EXPECT_THAT(simulate_collective(request_for("h100", {"ring"}, {1, 2, 10})).request.sizes,
              ElementsAre(4u, 12u));
  EXPECT_THAT(simulate_collective(request_for("h100", {"pairwise"}, {10, 33}, OpKind::kAllToAll))
                  .request.sizes,
              ElementsAre(32u, 64u))
      << "8 equal parts of whole elements";
  EXPECT_THAT(
      simulate_collective(request_for("h100", {}, {10, 33}, OpKind::kBarrier)).request.sizes,
      ElementsAre(0u));
}

TEST(SimulateCollective, LeavesOutWhatTakesTooLong) {
  const SimulationReport report = simulate_collective(
      request_for("h100,nodes=512", {"segmented-ring", "binomial"}, {2'000'000'000}));
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_THAT(report.skipped.front().reason, AllOf(HasSubstr("steps"), HasSubstr("60,000,000")));
  EXPECT_EQ(report.runs.size(), 1u);
}

TEST(FormatSimulation, PrintsARowPerRun) {
  const std::string table = format_simulation(simulate_collective(request_for(
      "h100,nodes=2", {"ring", "two-level", "halving-doubling"}, {1'000, 1'000'000'000})));
  EXPECT_THAT(table, HasSubstr("Simulation of all_reduce on 2 nodes x 8 GPUs = 16 ranks"));
  EXPECT_THAT(table, HasSubstr("1.00 GB  two-level"));
  EXPECT_THAT(table, HasSubstr("up to "));
  EXPECT_THAT(table, HasSubstr("125 MB")) << "1 GB / 8 x 2 (2-1) / 2 over each NIC";
  EXPECT_THAT(table, HasSubstr("1.00 kB  ring"));
}

TEST(SimulationToJson, HoldsSecondsAndBytes) {
  const SimulationReport report = simulate_collective(
      request_for("h100,nodes=2", {"ring", "halving-doubling"}, {1024, 1'048'576'000}));
  const auto json = nlohmann::json::parse(simulation_to_json(report).dump());
  EXPECT_EQ(json["op"], "all_reduce");
  EXPECT_EQ(json["topology"]["ranks"], 16);
  EXPECT_EQ(json["topology"]["inter"]["bandwidth"], 50e9);
  ASSERT_EQ(json["runs"].size(), 4u);
  const auto& run = json["runs"][2];
  EXPECT_EQ(run["algorithm"], "ring");
  EXPECT_EQ(run["bytes"], 1'048'576'000u);
  EXPECT_EQ(run["seconds"].get<double>(), report.runs[2].result.seconds);
  EXPECT_NEAR(run["bus_bandwidth"].get<double>() / 1e9, bus_gb(report, "ring", 1'048'576'000),
              1e-9);
  EXPECT_TRUE(run["closed_form_seconds"].is_null()) << "two kinds of links";
  EXPECT_EQ(run["busiest_nic_bytes"], 1'048'576'000u / 16 * 30);
  EXPECT_EQ(run["messages"], 16 * 30);
  EXPECT_EQ(json["crossovers"].size(), report.crossovers.size());
  EXPECT_GE(json["published"].size(), 13u);
  EXPECT_FALSE(run.contains("message_list"));
}

TEST(SimulationToJson, ListsMessagesWithTheirElements) {
  SimulationRequest request = request_for("h100,gpus=4", {"ring"}, {160});
  request.record = Record::kMessages;
  const auto json = nlohmann::json::parse(simulation_to_json(simulate_collective(request)).dump());
  const auto& messages = json["runs"][0]["message_list"];
  ASSERT_EQ(messages.size(), 4u * 6);
  std::size_t reducing = 0;
  for (const auto& message : messages) {
    EXPECT_EQ(message["to"].get<int>(), (message["from"].get<int>() + 1) % 4);
    EXPECT_EQ(message["bytes"], 40);
    EXPECT_EQ(message["elements"], message["into"]) << "a ring keeps every chunk in its place";
    EXPECT_LT(message["start"].get<double>(), message["arrival"].get<double>());
    if (message["reduces"].get<bool>()) ++reducing;
  }
  EXPECT_EQ(reducing, 12u) << "half of them: the reduce-scatter";
  EXPECT_EQ(json["runs"][0]["rank_seconds"].size(), 4u);
}

std::string refusal(const SimulationRequest& request) {
  return message_of<ConfigError>([&] { return simulate_collective(request); });
}

TEST(SimulationRefuses, WhatCannotBeSimulated) {
  EXPECT_THAT(refusal(request_for("h100", {"rings"}, {4})),
              AllOf(HasSubstr("'rings'"), HasSubstr("segmented-ring")));
  EXPECT_THAT(refusal(request_for("h100", {}, {})), HasSubstr("--simulate-sizes is empty"));
  EXPECT_THAT(refusal(request_for("h100", {}, {8, 4})), HasSubstr("ascend"));
  EXPECT_THAT(refusal(request_for("h100", {}, {std::size_t{1} << 60})), HasSubstr("1.00 PB"));
  EXPECT_THAT(refusal(request_for("h100", {}, {4}, OpKind::kSend)), HasSubstr("no collective"));
  EXPECT_THAT(refusal(request_for("h100,gpus=6", {"halving-doubling"}, {4})),
              AllOf(HasSubstr("no algorithm is left"), HasSubstr("power of two")));
  SimulationRequest request = request_for("h100", {"ring"}, {4});
  request.element_bytes = 0;
  EXPECT_THAT(refusal(request), HasSubstr("at least 1 byte"));
  request = request_for("h100,nodes=64", {"ring"}, {4});
  request.record = Record::kMessages;
  EXPECT_THAT(refusal(request), AllOf(HasSubstr("at most 200,000 messages"), HasSubstr("ring")));
}

void expect_no_simulation(const std::vector<test::Refusal>& rows) {
  test::expect_refused<SimulateOptions>(rows, [](const SimulateOptions& options) {
    options.validate();
    static_cast<void>(options.request());
  });
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
