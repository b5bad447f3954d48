#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "tests/support/table_row.hpp"

namespace ultra::tensor_parallel {
namespace {

using testing::HasSubstr;
using testing::Not;
using ultra::test::row;

TpScalingReport report_for(const memory::TransformerShape& model, std::vector<int> tp,
                           std::vector<std::size_t> micro_batch) {
  TpScalingRequest request{.model = model,
                           .machine = collectives::parse_topology("h100"),
                           .tp = std::move(tp),
                           .micro_batch = std::move(micro_batch)};
  return predict_tp_scaling(request);
}

TpScalingReport playbook_report() {
  return report_for(playbook_model(), {1, 2, 4, 8, 16, 32}, {4, 4, 10, 20, 40, 100});
}

/// A report whose numbers are made up, so that the table's can be checked.
TpScalingReport made_up_report() {
  TpScalingReport report = playbook_report();
  report.points = {{.tp = 8,
                    .nodes = 1,
                    .micro_batch = 20,
                    .product_seconds = 0.5,
                    .elementwise_seconds = 0.0125,
                    .communication_seconds = 0.4,
                    .exposed_seconds = 0.3,
                    .intra_bytes = 1e9,
                    .inter_bytes = 0,
                    .step_seconds = 0.8125,
                    .tokens_per_second_per_rank = 10000,
                    .one_node_tokens_per_second_per_rank = 10000,
                    .communication_share = 0.369,
                    .ratio_to_previous = std::nullopt,
                    .published = find_playbook_figure(8)},
                   {.tp = 16,
                    .nodes = 2,
                    .micro_batch = 40,
                    .product_seconds = 0.5,
                    .elementwise_seconds = 0.0125,
                    .communication_seconds = 1.4,
                    .exposed_seconds = 1.3,
                    .intra_bytes = 2e9,
                    .inter_bytes = 0.5e9,
                    .step_seconds = 1.8125,
                    .tokens_per_second_per_rank = 6000,
                    .one_node_tokens_per_second_per_rank = 8000,
                    .communication_share = 0.717,
                    .ratio_to_previous = 0.6,
                    .published = find_playbook_figure(16)}};
  return report;
}

TEST(FormatTpScaling, PrintsARowPerNumberOfRanks) {
  const std::string table = format_tp_scaling(made_up_report());
  EXPECT_THAT(table, HasSubstr("playbook-3b, 3,573,722,112 parameters, on up to 2 nodes x 8 GPUs"));
  EXPECT_THAT(table, HasSubstr("sequences of 4,096 tokens; sequence parallelism on; two-level"));
  EXPECT_THAT(table, HasSubstr("989 TFLOP/s x 0.4, memory 3350 GB/s"));
  EXPECT_EQ(row(table, "8 1"),
            "8 1 20 500.00 12.50 400.00 300.00 36.9% 10,000 - 10,000 10,889 - -8.2%");
  EXPECT_EQ(row(table, "16 2"),
            "16 2 40 500.00 12.50 1400.00 1300.00 71.7% 6,000 -40.0% 8,000 6,159 -43.4% -2.6%");
  EXPECT_THAT(table, HasSubstr("From 16 ranks on exchanges leave the node: there a rank sends 2.00 "
                               "GB inside it and 500 MB across, and is at 75%"));
  EXPECT_THAT(table, HasSubstr("The Ultra-Scale Playbook"));
  EXPECT_THAT(table, HasSubstr("Left out: memory"));
}

TEST(FormatTpScaling, HasNoPublishedColumnsForOtherQuestions) {
  const std::string table =
      format_tp_scaling(report_for(memory::find_preset("llama-8b"), {2, 8}, {4}));
  EXPECT_THAT(table, Not(HasSubstr("published")));
  EXPECT_THAT(table, Not(HasSubstr("Playbook")));
  EXPECT_THAT(table, HasSubstr("All ranks are in one node."));
}

TEST(FormatTpScaling, LeavesAPublishedCellEmptyWhereThereIsNone) {
  const std::string line = row(format_tp_scaling(playbook_report()), "1 1 4");
  EXPECT_TRUE(line.ends_with(" - - -")) << line;
}

TEST(TpScalingToJson, HoldsTheQuestion) {
  const nlohmann::ordered_json json = tp_scaling_to_json(playbook_report());
  EXPECT_EQ(json["model"], "playbook-3b");
  EXPECT_EQ(json["parameters"], 3'573'722'112U);
  EXPECT_EQ(json["machine"]["gpus_per_node"], 8);
  EXPECT_EQ(json["machine"]["nics_per_node"], 8);
  EXPECT_EQ(json["machine"]["intra"]["bandwidth"], 370e9);
  EXPECT_EQ(json["machine"]["inter"]["bandwidth"], 50e9);
  EXPECT_EQ(json["seq_len"], 4096);
  EXPECT_EQ(json["sequence_parallel"], "on");
  EXPECT_EQ(json["hide"], "nothing");
  EXPECT_EQ(json["algorithm"], "two-level");
  EXPECT_EQ(json["element_bytes"], 2);
  EXPECT_EQ(json["peak_flops"], 989e12);
  EXPECT_EQ(json["mfu"], 0.4);
  EXPECT_EQ(json["memory_bandwidth"], 3.35e12);
}

TEST(TpScalingToJson, HoldsEveryPointToTheLastDigit) {
  const TpScalingReport report = playbook_report();
  const nlohmann::ordered_json json = tp_scaling_to_json(report);
  ASSERT_EQ(json["points"].size(), report.points.size());
  for (std::size_t i = 0; i < report.points.size(); ++i) {
    const nlohmann::ordered_json& row = json["points"][i];
    const TpScalingPoint& point = report.points[i];
    EXPECT_EQ(row["tp"], point.tp);
    EXPECT_EQ(row["nodes"], point.nodes);
    EXPECT_EQ(row["micro_batch"], point.micro_batch);
    EXPECT_EQ(row["product_seconds"], point.product_seconds);
    EXPECT_EQ(row["elementwise_seconds"], point.elementwise_seconds);
    EXPECT_EQ(row["communication_seconds"], point.communication_seconds);
    EXPECT_EQ(row["exposed_seconds"], point.exposed_seconds);
    EXPECT_EQ(row["intra_bytes"], point.intra_bytes);
    EXPECT_EQ(row["inter_bytes"], point.inter_bytes);
    EXPECT_EQ(row["step_seconds"], point.step_seconds);
    EXPECT_EQ(row["tokens_per_second_per_rank"], point.tokens_per_second_per_rank);
    EXPECT_EQ(row["one_node_tokens_per_second_per_rank"],
              point.one_node_tokens_per_second_per_rank);
    EXPECT_EQ(row["communication_share"], point.communication_share);
    EXPECT_EQ(row["ratio_to_previous"].is_null(), i == 0);
    if (point.ratio_to_previous) {
      EXPECT_EQ(row["ratio_to_previous"], *point.ratio_to_previous);
    }
    EXPECT_EQ(row.size(), 15U);
  }
  EXPECT_EQ(json["first_across_nodes_tp"], 16);
}

TEST(TpScalingToJson, PutsThePublishedFiguresBesideThePredicted) {
  const nlohmann::ordered_json json = tp_scaling_to_json(made_up_report());
  const nlohmann::ordered_json& eight = json["points"][0]["published"];
  EXPECT_EQ(eight["tokens_per_second_per_rank"], 10888.53);
  EXPECT_TRUE(eight["ratio_to_previous"].is_null());
  EXPECT_NEAR(eight["prediction_error"].get<double>(), 10000 / 10888.53 - 1, 1e-12);
  const nlohmann::ordered_json& sixteen = json["points"][1]["published"];
  EXPECT_NEAR(sixteen["ratio_to_previous"].get<double>(), 6159.3 / 10888.53, 1e-12);
  EXPECT_EQ(json["published_source"], kPlaybookSource);

  const nlohmann::ordered_json other =
      tp_scaling_to_json(report_for(memory::find_preset("llama-8b"), {2, 8}, {4}));
  EXPECT_TRUE(other["points"][0]["published"].is_null());
  EXPECT_TRUE(other["published_source"].is_null());
  EXPECT_TRUE(other["first_across_nodes_tp"].is_null());
}

}  // namespace
}  // namespace ultra::tensor_parallel
