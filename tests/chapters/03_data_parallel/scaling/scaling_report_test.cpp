#include "chapters/03_data_parallel/scaling/scaling_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"

namespace ultra::data_parallel {
namespace {

using testing::HasSubstr;
using testing::Not;

ScalingReport report_for(std::vector<int> dp, std::size_t rank_batch) {
  return predict_scaling({.model = sizes_of(memory::find_preset("llama-1b")),
                          .machine = collectives::parse_topology("h100"),
                          .dp = std::move(dp),
                          .batch_rule = BatchRule::kPerRank,
                          .batch = rank_batch});
}

TEST(FormatScaling, PrintsARowPerNumberOfReplicas) {
  const std::string table = format_scaling(report_for({1, 8, 12, 256}, 1));
  EXPECT_THAT(table, HasSubstr("llama-1b, 1,235,814,400 parameters"));
  EXPECT_THAT(table, HasSubstr("32 nodes x 8 GPUs = 256 ranks"));
  EXPECT_THAT(table, HasSubstr("1 sequence of 4,096 tokens per replica and step"));
  EXPECT_THAT(table,
              HasSubstr("two-level all-reduce of 2.47 GB in 66 buckets, the largest 525 MB"));
  EXPECT_THAT(table, HasSubstr("\n      1     1          1       25.59       51.18        0.00"));
  EXPECT_THAT(table, HasSubstr("\n    256    32          1       25.59       51.18"));
  EXPECT_THAT(table, HasSubstr("without 12: they do not fill nodes of 8 GPUs"));
  EXPECT_THAT(table, HasSubstr("Left out: memory"));
}

TEST(FormatScaling, NamesWhereTheLinkBecomesTheBottleneck) {
  const ScalingReport bound = report_for({64, 128, 256}, 1);
  EXPECT_THAT(format_scaling(bound), HasSubstr("From 128 replicas on the link is the bottleneck"));
  const ScalingReport hidden = report_for({64, 128}, 16);
  EXPECT_EQ(hidden.first_link_bound(), nullptr);
  EXPECT_THAT(format_scaling(hidden), HasSubstr("nowhere the bottleneck"));
  EXPECT_THAT(format_scaling(hidden), Not(HasSubstr("replicas on")));
}

/// Every number is another, so that none stands for its neighbour.
TEST(ScalingToJson, HoldsTheQuestionAndEveryPointToTheLastDigit) {
  ScalingReport report{
      .request = {.model = {.name = "small", .parameters = {3, 5}},
                  .machine = {.intra = {.latency = 1e-6, .bandwidth = 4e11},
                              .inter = {.latency = 2e-6, .bandwidth = 5e10},
                              .nics_per_node = 4,
                              .gamma = 1e-12,
                              .torus = {}},
                  .algorithm = "ring",
                  .dp = {16},
                  .seq_len = 2048,
                  .batch_rule = BatchRule::kPerRank,
                  .batch = 6,
                  .micro_batch = 1,
                  .element_bytes = 4,
                  .peak_flops = 312e12,
                  .mfu = 0.3,
                  .bucket_bytes = 12},
      .buckets = {{.parameters = {1}, .count = 5}, {.parameters = {0}, .count = 3}},
      .points = {{.dp = 16,
                  .nodes = 2,
                  .rank_batch = 7,
                  .tokens_per_rank = 14336,
                  .forward_seconds = 0.1,
                  .backward_seconds = 0.2,
                  .hiding_seconds = 0.025,
                  .communication_seconds = 0.0375,
                  .exposed_seconds = 0.0123456789012345,
                  .step_seconds = 0.4,
                  .tokens_per_second = 8000.5,
                  .tokens_per_second_per_rank = 500.25,
                  .efficiency = 0.875,
                  .overlap_ratio = 1.5,
                  .tokens_to_hide = 9000.75,
                  .bus_bandwidth = 3e11}},
      .skipped = {{12, "it is not even"}}};
  auto expected = Json::parse(R"({
    "model": "small", "parameters": 8,
    "machine": {
      "largest": null,
      "gpus_per_node": 8, "nics_per_node": 4,
      "intra": {"latency": 1e-6, "bandwidth": 4e11},
      "inter": {"latency": 2e-6, "bandwidth": 5e10},
      "gamma": 1e-12, "order": "natural"},
    "algorithm": "ring", "seq_len": 2048, "batch_rule": "per-rank", "batch": 6, "micro_batch": 1,
    "element_bytes": 4, "peak_flops": 312e12, "mfu": 0.3, "bucket_bytes": 12.0,
    "buckets": {"count": 2, "largest_bytes": 20},
    "points": [{
      "dp": 16, "nodes": 2, "rank_batch": 7, "tokens_per_rank": 14336, "forward_seconds": 0.1,
      "backward_seconds": 0.2, "hiding_seconds": 0.025, "communication_seconds": 0.0375,
      "exposed_seconds": 0.0123456789012345, "step_seconds": 0.4, "tokens_per_second": 8000.5,
      "tokens_per_second_per_rank": 500.25, "efficiency": 0.875, "overlap_ratio": 1.5,
      "tokens_to_hide": 9000.75, "bus_bandwidth": 3e11}],
    "first_link_bound_dp": 16,
    "skipped": [{"dp": 12, "reason": "it is not even"}]})");
  expected["machine"]["largest"] = machine_for(16, report.request.machine).describe();
  EXPECT_EQ(scaling_to_json(report).dump(1), expected.dump(1));
  report.points[0].overlap_ratio = 1.0;
  EXPECT_EQ(scaling_to_json(report)["first_link_bound_dp"], nullptr);
}

}  // namespace
}  // namespace ultra::data_parallel
