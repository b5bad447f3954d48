// Tables of shapes, and what is refused before a block is run for them.
//
// Covers: chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::tensor_parallel {
namespace {

using ::testing::HasSubstr;

/// @brief The line of the table whose first word is `name`, its spaces squeezed.
std::string row(const std::string& table, const std::string& name) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string result;
    for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
    if (result.starts_with(name)) return result;
  }
  return "no row " + name;
}

/// h 16, 4 heads of 4, 2 key/value heads (kv 8), f 24, V 32; 3 sequences of 8 tokens.
BlockShapesRequest table_request(int tp, SequenceParallel sequence_parallel) {
  return {.model = {.vocab_size = 32,
                    .hidden_size = 16,
                    .num_layers = 1,
                    .num_heads = 4,
                    .num_kv_heads = 2,
                    .ffn_hidden_size = 24,
                    .max_seq_len = 8},
          .layout = {.tp = tp, .sequence_parallel = sequence_parallel},
          .batch = {.size = 3, .seq_len = 8}};
}

TEST(BlockShapesTable, PrintOneLinePerTensor) {
  const BlockShapesRequest request = table_request(2, SequenceParallel::kOn);
  const auto rows = run_split_block(request);
  const std::string table = format_block_shapes(request, rows);
  EXPECT_THAT(table, HasSubstr("Shapes on each of t = 2 ranks, with sequence parallelism\n"));
  EXPECT_THAT(table,
              HasSubstr("b = 3 sequences, s = 8 tokens, h = 16 hidden, a = 4 heads of 4, k = "
                        "2 key/value heads\n(together kv = 8), f = 24 ffn, V = 32 "
                        "vocabulary\n"));
  EXPECT_EQ(row(table, "forward"), "forward region tensor on a rank whole place");
  EXPECT_EQ(row(table, "backward"), "backward region tensor on a rank whole place");
  EXPECT_EQ(row(table, "input_layernorm"),
            "input_layernorm SP region in input [3, 4, 16] [3, 8, 16] split along the sequence: "
            "s/t");
  EXPECT_EQ(row(table, "weight o_proj"),
            "weight o_proj [16, 8] [16, 16] columns split by heads: h/t");
  EXPECT_EQ(row(table, "out d_query"), "out d_query [3, 8, 2, 4] [3, 8, 4, 4] split by heads: a/t");
}

TEST(BlockShapesTable, AreJsonRows) {
  const auto rows = run_split_block(table_request(2, SequenceParallel::kOn));
  const auto json = nlohmann::json::parse(block_shapes_to_json(rows).dump());
  ASSERT_EQ(json.size(), 22U);
  EXPECT_TRUE(json[0]["layer"].is_null());
  const auto& row = json[4];
  EXPECT_EQ(row["pass"], "forward");
  EXPECT_EQ(row["layer"], 0);
  EXPECT_EQ(row["step"], "o_proj");
  EXPECT_EQ(row["region"], "exit TP");
  EXPECT_EQ(row["inputs"], (nlohmann::json::array({{{"name", "input"},
                                                    {"local", {3, 8, 8}},
                                                    {"whole", {3, 8, 16}},
                                                    {"placement", "heads"},
                                                    {"split", 2},
                                                    {"words", "split by heads: h/t"}}})));
  EXPECT_EQ(row["outputs"][0]["placement"], "sequence");
  EXPECT_EQ(row["weights"][0]["split"], 1);
  EXPECT_TRUE(json[1]["weights"][0]["split"].is_null());
  EXPECT_EQ(json[21]["pass"], "backward");
  EXPECT_TRUE(json[21]["outputs"].empty());
}

TEST(BlockShapesTable, WidensItsColumns) {
  BlockShapesRequest request = table_request(1, SequenceParallel::kOff);
  request.model.vocab_size = 123456789;  // of the request: nothing of that size is built here
  request.batch = {.size = 123456, .seq_len = 123456};
  const std::vector<RecordedStep> steps = {
      {.kind = PartKind::kLoss,
       .pass = Pass::kForward,
       .layer = {},
       .name = "loss",
       .inputs = {{"logits", {123456, 123456, 123456789}}, {"targets", {123456, 123456}}}}};
  EXPECT_THAT(format_block_shapes(request, block_shapes(request, steps)),
              HasSubstr("  forward  region         tensor   on a rank                    whole     "
                        "                   place\n"
                        "  loss     TP region  in  logits   [123456, 123456, 123456789]  [123456, "
                        "123456, 123456789]  whole\n"
                        "                      in  targets  [123456, 123456]             [123456, "
                        "123456]             whole\n"));
}

// The Ultra-Scale Playbook's table: tensor parallelism alone, and with sequence parallelism.
TEST(BlockShapesTable, ComparesLayouts) {
  std::vector<LayoutRows> layouts;
  for (const auto sequence_parallel : {SequenceParallel::kOff, SequenceParallel::kOn}) {
    const BlockShapesRequest request = table_request(2, sequence_parallel);
    layouts.push_back({request.layout, run_split_block(request)});
  }
  EXPECT_EQ(format_comparison(layouts),
            "  forward                   region     tp 2            tp 2 with SP\n"
            "  embed_tokens              exit TP    whole -> whole  whole -> s/t\n"
            "  input_layernorm           SP region  whole -> whole  s/t -> s/t\n"
            "  q_proj, k_proj, v_proj    enter TP   whole -> h/t    s/t -> h/t\n"
            "  attention                 TP region  a/t -> a/t      a/t -> a/t\n"
            "  o_proj                    exit TP    h/t -> whole    h/t -> s/t\n"
            "  post_attention_layernorm  SP region  whole -> whole  s/t -> s/t\n"
            "  gate_proj, up_proj        enter TP   whole -> f/t    s/t -> f/t\n"
            "  down_proj                 exit TP    f/t -> whole    f/t -> s/t\n"
            "  norm                      SP region  whole -> whole  s/t -> s/t\n"
            "  lm_head                   enter TP   whole -> V/t    s/t -> V/t\n"
            "  loss                      TP region  V/t             V/t\n");
}

TEST(BlockShapesTable, ComparesTheSameStepsOnly) {
  const BlockShapesRequest request = table_request(2, SequenceParallel::kOn);
  std::vector<LayoutRows> layouts(2, {request.layout, run_split_block(request)});
  layouts[1].rows.pop_back();
  EXPECT_THROW((void)format_comparison(layouts), InternalError);
  EXPECT_THROW((void)format_comparison({}), InternalError);
}

/// Two key/value heads for four ranks, and a vocabulary that does not divide.
constexpr nn::ModelConfig kTableModel = {.vocab_size = 30,
                                         .hidden_size = 16,
                                         .num_layers = 1,
                                         .num_heads = 4,
                                         .num_kv_heads = 2,
                                         .ffn_hidden_size = 24,
                                         .max_seq_len = 8};

TEST(SplitShapes, OfModelsThatCannotBeSplitAreRefused) {
  EXPECT_THAT(ultra::test::message_of<ConfigError>([] {
                static_cast<void>(describe_shapes(Shapes::kTable, kTableModel,
                                                  {.size = 1, .seq_len = 8}, {.tp = 3}));
              }),
              HasSubstr("4 % 3 = 1"));
}

TEST(SplitShapes, OfModelsThatNoMachineRunsAreRefused) {
  const auto refusal = [](const nn::ModelConfig& model, std::size_t batch, int tp) {
    return ultra::test::message_of<ConfigError>([&] {
      static_cast<void>(describe_shapes(Shapes::kTable, model,
                                        {.size = batch, .seq_len = model.max_seq_len}, {.tp = tp}));
    });
  };
  constexpr std::size_t kLargest = std::numeric_limits<std::size_t>::max();
  EXPECT_THAT(refusal(kTableModel, kLargest, 1), HasSubstr("more than 64. Choose smaller"));
  nn::ModelConfig wide = kTableModel;
  wide.ffn_hidden_size = kLargest;
  EXPECT_THAT(refusal(wide, 1, 1), HasSubstr("--ffn"));
  nn::ModelConfig many_heads = kTableModel;
  many_heads.vocab_size = many_heads.ffn_hidden_size = 512;
  many_heads.hidden_size = 1024;
  many_heads.num_heads = many_heads.num_kv_heads = 512;
  EXPECT_THAT(refusal(many_heads, 1, 512), HasSubstr("--shapes runs a block on --tp 512 ranks"));
}

}  // namespace
}  // namespace ultra::tensor_parallel
