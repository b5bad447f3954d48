#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/03_data_parallel/scaling/scaling_report.hpp"
#include "tests/support/programs/table_row.hpp"

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
                    .published = PlaybookFigure{8, 20, 16000}},
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
                    .published = PlaybookFigure{16, 40, 8000}}};
  return report;
}

TEST(FormatTpScaling, PrintsARowPerNumberOfRanks) {
  const std::string table = format_tp_scaling(made_up_report());
  EXPECT_THAT(table, HasSubstr("playbook-3b, 3,573,722,112 parameters, on up to 2 nodes x 8 GPUs"));
  EXPECT_THAT(table, HasSubstr("sequences of 4,096 tokens; sequence parallelism on; two-level"));
  EXPECT_THAT(table, HasSubstr("989 TFLOP/s x 0.4, memory 3350 GB/s"));
  EXPECT_EQ(row(table, "8 1"),
            "8 1 20 500.00 12.50 400.00 300.00 36.9% 10,000 - 10,000 16,000 - -37.5%");
  EXPECT_EQ(row(table, "16 2"),
            "16 2 40 500.00 12.50 1400.00 1300.00 71.7% 6,000 -40.0% 8,000 8,000 -50.0% -25.0%");
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

TEST(TpScalingToJson, HoldsTheQuestionAndEveryPointToTheLastDigit) {
  auto expected = Json::parse(R"({
    "model": "playbook-3b", "parameters": 3573722112,
    "machine": null,
    "seq_len": 4096, "sequence_parallel": "on", "hide": "nothing", "algorithm": "two-level",
    "element_bytes": 2, "peak_flops": 989e12, "mfu": 0.4, "memory_bandwidth": 3.35e12,
    "points": [{
      "tp": 8, "nodes": 1, "micro_batch": 20, "product_seconds": 0.5,
      "elementwise_seconds": 0.0125, "communication_seconds": 0.4, "exposed_seconds": 0.3,
      "intra_bytes": 1e9, "inter_bytes": 0.0, "step_seconds": 0.8125,
      "tokens_per_second_per_rank": 10000.0, "one_node_tokens_per_second_per_rank": 10000.0,
      "communication_share": 0.369, "ratio_to_previous": null,
      "published": {"tokens_per_second_per_rank": 16000.0, "ratio_to_previous": null,
                    "prediction_error": -0.375}}, {
      "tp": 16, "nodes": 2, "micro_batch": 40, "product_seconds": 0.5,
      "elementwise_seconds": 0.0125, "communication_seconds": 1.4, "exposed_seconds": 1.3,
      "intra_bytes": 2e9, "inter_bytes": 0.5e9, "step_seconds": 1.8125,
      "tokens_per_second_per_rank": 6000.0, "one_node_tokens_per_second_per_rank": 8000.0,
      "communication_share": 0.717, "ratio_to_previous": 0.6,
      "published": {"tokens_per_second_per_rank": 8000.0, "ratio_to_previous": 0.5,
                    "prediction_error": -0.25}}],
    "first_across_nodes_tp": 16, "published_source": null})");
  expected["machine"] = data_parallel::machine_to_json(collectives::parse_topology("h100"), 16);
  expected["published_source"] = kPlaybookSource;
  EXPECT_EQ(tp_scaling_to_json(made_up_report()).dump(1), expected.dump(1));
}

TEST(TpScalingToJson, HasNoPublishedFiguresForOtherQuestions) {
  const Json other = tp_scaling_to_json(report_for(memory::find_preset("llama-8b"), {2, 8}, {4}));
  EXPECT_TRUE(other["points"][0]["published"].is_null());
  EXPECT_TRUE(other["published_source"].is_null());
  EXPECT_TRUE(other["first_across_nodes_tp"].is_null());
}

}  // namespace
}  // namespace ultra::tensor_parallel
