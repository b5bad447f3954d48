#include "chapters/03_data_parallel/scaling/scaling_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
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
  ASSERT_NE(bound.first_link_bound(), nullptr);
  EXPECT_EQ(bound.first_link_bound()->dp, 128);
  EXPECT_THAT(format_scaling(bound), HasSubstr("From 128 replicas on the link is the bottleneck"));
  const ScalingReport hidden = report_for({64, 128}, 16);
  EXPECT_EQ(hidden.first_link_bound(), nullptr);
  EXPECT_THAT(format_scaling(hidden), HasSubstr("nowhere the bottleneck"));
  EXPECT_THAT(format_scaling(hidden), Not(HasSubstr("replicas on")));
}

TEST(ScalingToJson, HoldsTheQuestion) {
  const nlohmann::ordered_json json = scaling_to_json(report_for({8}, 1));
  EXPECT_EQ(json["model"], "llama-1b");
  EXPECT_EQ(json["parameters"], 1'235'814'400u);
  EXPECT_EQ(json["machine"]["gpus_per_node"], 8);
  EXPECT_EQ(json["machine"]["inter"]["bandwidth"], 50e9);
  EXPECT_EQ(json["algorithm"], "two-level");
  EXPECT_EQ(json["seq_len"], 4096);
  EXPECT_EQ(json["batch_rule"], "per-rank");
  EXPECT_EQ(json["batch"], 1);
  EXPECT_EQ(json["micro_batch"], 0);
  EXPECT_EQ(json["element_bytes"], 2);
  EXPECT_EQ(json["peak_flops"], 989e12);
  EXPECT_EQ(json["mfu"], 0.4);
  EXPECT_EQ(json["bucket_bytes"], 25e6);
  EXPECT_EQ(json["buckets"]["count"], 66);
  EXPECT_EQ(json["buckets"]["largest_bytes"], 2 * 128256 * 2048);
}

TEST(ScalingToJson, HoldsEveryPointToTheLastDigit) {
  const ScalingReport report = report_for({1, 8, 12, 128}, 1);
  const nlohmann::ordered_json json = scaling_to_json(report);
  ASSERT_EQ(json["points"].size(), report.points.size());
  for (std::size_t i = 0; i < report.points.size(); ++i) {
    const nlohmann::ordered_json& row = json["points"][i];
    const ScalingPoint& point = report.points[i];
    EXPECT_EQ(row["dp"], point.dp);
    EXPECT_EQ(row["nodes"], point.nodes);
    EXPECT_EQ(row["rank_batch"], point.rank_batch);
    EXPECT_EQ(row["tokens_per_rank"], point.tokens_per_rank);
    EXPECT_EQ(row["forward_seconds"], point.forward_seconds);
    EXPECT_EQ(row["backward_seconds"], point.backward_seconds);
    EXPECT_EQ(row["hiding_seconds"], point.hiding_seconds);
    EXPECT_EQ(row["communication_seconds"], point.communication_seconds);
    EXPECT_EQ(row["exposed_seconds"], point.exposed_seconds);
    EXPECT_EQ(row["step_seconds"], point.step_seconds);
    EXPECT_EQ(row["tokens_per_second"], point.tokens_per_second);
    EXPECT_EQ(row["tokens_per_second_per_rank"], point.tokens_per_second_per_rank);
    EXPECT_EQ(row["efficiency"], point.efficiency);
    EXPECT_EQ(row["overlap_ratio"], point.overlap_ratio);
    EXPECT_EQ(row["tokens_to_hide"], point.tokens_to_hide);
    EXPECT_EQ(row["bus_bandwidth"], point.bus_bandwidth);
    EXPECT_EQ(row.size(), 16u);
  }
  EXPECT_EQ(json["first_link_bound_dp"], 128);
  ASSERT_EQ(json["skipped"].size(), 1u);
  EXPECT_EQ(json["skipped"][0]["dp"], 12);
  EXPECT_EQ(json["skipped"][0]["reason"], report.skipped[0].reason);
  EXPECT_EQ(scaling_to_json(report_for({8}, 16))["first_link_bound_dp"], nullptr);
}

}  // namespace
}  // namespace ultra::data_parallel
