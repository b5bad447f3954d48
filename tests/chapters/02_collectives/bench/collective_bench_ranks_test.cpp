// Covers: chapters/02_collectives/bench/collective_bench.hpp
// Covers: chapters/02_collectives/bench/collective_case.hpp

#include "chapters/02_collectives/bench/collective_bench.hpp"

#include "chapters/02_collectives/bench/collective_case.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/ranks/star_algorithms.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

constexpr OpKind kMeasured[] = {OpKind::kBroadcast,     OpKind::kReduce,  OpKind::kAllReduce,
                                OpKind::kGather,        OpKind::kScatter, OpKind::kAllGather,
                                OpKind::kReduceScatter, OpKind::kAllToAll};

class CollectiveBenchRanks : public test::RandomTest {};

TEST_F(CollectiveBenchRanks, EveryAlgorithmOfEveryCollectiveIsMeasuredAndRight) {
  const std::size_t bytes = random.between(1, 5000);
  run_ranks(3, [&](Communicator& world) {
    for (const OpKind op : kMeasured) {
      BenchRequest request{.op = op, .algorithms = {"native"}, .sizes = {bytes}, .iterations = 2};
      for (const NamedAlgorithm& algorithm : algorithms(op)) {
        request.algorithms.emplace_back(algorithm.name);
      }
      const std::vector<BenchRow> rows = measure_collective(request, world);
      EXPECT_EQ(rows.size(), request.algorithms.size());
      for (const BenchRow& row : rows) {
        EXPECT_EQ(row.wrong_elements, 0U) << to_string(op) << ' ' << row.algorithm;
        EXPECT_TRUE(row.seconds > 0.0 || !row.skipped.empty()) << row.algorithm;
        EXPECT_GE(row.bytes, bytes);
        EXPECT_LT(row.bytes, bytes + 3 * sizeof(float) + sizeof(float));
      }
    }
  });
}

/// Stores where it should add.
class ForgetfulAlgorithms : public test::StarAlgorithms {
 public:
  comm::Schedule all_reduce(const comm::Group& group, std::size_t count,
                            std::size_t element_bytes) const override {
    comm::Schedule schedule = StarAlgorithms::all_reduce(group, count, element_bytes);
    for (comm::Round& step : schedule.lanes.front()) step.on_receive = comm::OnReceive::kStore;
    return schedule;
  }
};

TEST_F(CollectiveBenchRanks, WrongResultsAreCounted) {
  run_ranks(3, [&](Communicator& world) {
    const auto trial = make_case(OpKind::kAllReduce, world, 32, DType::kF32, Device::cpu());
    trial->refresh();
    trial->run(world.with_algorithms(std::make_shared<ForgetfulAlgorithms>()));
    EXPECT_GT(trial->wrong_elements(), 20U);
    trial->refresh();
    trial->run(world);
    EXPECT_EQ(trial->wrong_elements(), 0U) << "a refreshed case begins again";
  });
}

TEST_F(CollectiveBenchRanks, AnAlgorithmThatDoesNotSuitIsSkippedWithTheReason) {
  run_ranks(3, [&](Communicator& world) {
    const BenchRequest request{
        .op = OpKind::kAllReduce, .algorithms = {"halving-doubling"}, .sizes = {64}};
    const std::vector<BenchRow> rows = measure_collective(request, world);
    EXPECT_THAT(rows.front().skipped, HasSubstr("power of two"));
    EXPECT_THAT(format_bench(request, 3, rows), HasSubstr("skipped: "));
    EXPECT_THAT(bench_to_json(request, 3, rows)["rows"][0]["skipped"].get<std::string>(),
                HasSubstr("power of two"));
  });
}

TEST_F(CollectiveBenchRanks, WhatIsNoCollectiveOnDataIsRefused) {
  run_ranks(1, [&](Communicator& world) {
    EXPECT_THROW(
        static_cast<void>(make_case(OpKind::kBarrier, world, 1, DType::kF32, Device::cpu())),
        ConfigError);
  });
}

TEST(CollectiveBench, BandwidthsAreThoseOfNcclTests) {
  // 8 ranks, 1 GB in 4 ms: 250 GB/s; times 2 * 7 / 8.
  const BenchRequest request{.op = OpKind::kAllReduce, .algorithms = {"ring"}, .sizes = {}};
  const std::vector<BenchRow> rows = {
      {.algorithm = "ring", .bytes = 1'000'000'000, .seconds = 4e-3, .skipped = {}}};
  const auto row = bench_to_json(request, 8, rows)["rows"][0];
  EXPECT_DOUBLE_EQ(row["algorithm_bandwidth"].get<double>(), 250e9);
  EXPECT_DOUBLE_EQ(row["bus_bandwidth"].get<double>(), 437.5e9);
  EXPECT_THAT(format_bench(request, 8, rows), HasSubstr("437.50"));
}

}  // namespace
}  // namespace ultra::collectives
