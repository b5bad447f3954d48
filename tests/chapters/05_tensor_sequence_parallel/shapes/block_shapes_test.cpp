#include "chapters/05_tensor_sequence_parallel/shapes/block_shapes.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::tensor_parallel {
namespace {

/// h 16, 4 heads of 4, 2 key/value heads (kv 8), f 24, V 32; 3 sequences of 8 tokens.
BlockShapesRequest request_of(int tp, SequenceParallel sequence_parallel) {
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

/// Calls use(factory) on the ranks of a layout; true on the first.
void on_split_ranks(const TensorParallelLayout& layout,
                    const std::function<void(nn::LayerFactory& factory, bool first)>& use) {
  run_ranks(layout.tp, [&](Communicator& tp) {
    nn::DenseFactory dense;
    TensorParallelFactory split(dense, tp, layout.sequence_parallel, TensorOverlap::kBackward);
    use(layout.tp > 1 ? static_cast<nn::LayerFactory&>(split) : dense, tp.rank() == 0);
  });
}

class BlockShapes : public test::RandomTest {};

/// "input [3, 8, 16] whole" for each tensor of the row: inputs, weights, outputs.
std::vector<std::string> lines(const BlockShapeRow& row) {
  std::vector<std::string> result;
  for (const auto* tensors : {&row.inputs, &row.weights, &row.outputs}) {
    for (const PlacedTensor& tensor : *tensors) {
      result.push_back(tensor.name + " " + tensor.local.str() + " " + tensor.words);
    }
  }
  return result;
}

// The rows of the Ultra-Scale Playbook's table for tensor parallelism alone: hidden dimension and
// sequence are whole, but for the hidden dimension between column and row linears.
TEST_F(BlockShapes, WithTensorParallelismAreSplitInsideOnly) {
  const auto rows = run_split_block(request_of(2, SequenceParallel::kOff));
  ASSERT_EQ(rows.size(), 22U);
  EXPECT_THAT(lines(rows[0]), ElementsAre("tokens [3, 8] whole",
                                          "embed_tokens [16, 16] rows split by vocabulary: V/t",
                                          "output [3, 8, 16] whole"));
  EXPECT_THAT(lines(rows[1]), ElementsAre("input [3, 8, 16] whole", "input_layernorm [16] whole",
                                          "output [3, 8, 16] whole"));
  EXPECT_THAT(
      lines(rows[2]),
      ElementsAre("input [3, 8, 16] whole", "q_proj [8, 16] rows split by heads: h/t",
                  "k_proj [4, 16] rows split by heads: kv/t",
                  "v_proj [4, 16] rows split by heads: kv/t", "query [3, 8, 8] split by heads: h/t",
                  "key [3, 8, 4] split by heads: kv/t", "value [3, 8, 4] split by heads: kv/t"));
  EXPECT_THAT(lines(rows[3]), ElementsAre("query [3, 8, 2, 4] split by heads: a/t",
                                          "key [3, 8, 1, 4] split by heads: k/t",
                                          "value [3, 8, 1, 4] split by heads: k/t",
                                          "output [3, 8, 2, 4] split by heads: a/t"));
  EXPECT_THAT(lines(rows[4]),
              ElementsAre("input [3, 8, 8] split by heads: h/t",
                          "o_proj [16, 8] columns split by heads: h/t", "output [3, 8, 16] whole"));
  EXPECT_THAT(lines(rows[6]),
              ElementsAre("input [3, 8, 16] whole", "gate_proj [12, 16] rows split by ffn: f/t",
                          "up_proj [12, 16] rows split by ffn: f/t",
                          "gate [3, 8, 12] split by ffn: f/t", "up [3, 8, 12] split by ffn: f/t"));
  EXPECT_THAT(lines(rows[7]), ElementsAre("input [3, 8, 12] split by ffn: f/t",
                                          "down_proj [16, 12] columns split by ffn: f/t",
                                          "output [3, 8, 16] whole"));
  EXPECT_THAT(lines(rows[9]), ElementsAre("input [3, 8, 16] whole",
                                          "lm_head [16, 16] rows split by vocabulary: V/t",
                                          "logits [3, 8, 16] split by vocabulary: V/t"));
  EXPECT_THAT(lines(rows[10]),
              ElementsAre("logits [3, 8, 16] split by vocabulary: V/t", "targets [3, 8] whole"));
}

// The same table's column for tensor and sequence parallelism: the sequence is split outside.
TEST_F(BlockShapes, WithSequenceParallelismAreSplitBetweenTheMatricesToo) {
  const auto rows = run_split_block(request_of(2, SequenceParallel::kOn));
  const auto plain = run_split_block(request_of(2, SequenceParallel::kOff));
  ASSERT_EQ(rows.size(), plain.size());
  const std::string part = "[3, 4, 16] split along the sequence: s/t";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> expected = lines(plain[i]);
    for (std::string& line : expected) {
      const std::size_t at = line.find("[3, 8, 16] whole");
      if (at != std::string::npos) line.replace(at, std::string::npos, part);
    }
    EXPECT_EQ(lines(rows[i]), expected) << rows[i].step;
  }
  EXPECT_THAT(lines(rows[1]),
              ElementsAre("input " + part, "input_layernorm [16] whole", "output " + part));
  EXPECT_EQ(rows[1].inputs[0].split, 1);
  EXPECT_EQ(rows[1].inputs[0].whole, (Shape{3, 8, 16}));
  EXPECT_EQ(rows[2].inputs[0].placement, Placement::kSequence);
  EXPECT_EQ(rows[2].outputs[0].placement, Placement::kHeads);
  EXPECT_EQ(rows[2].outputs[0].split, 2);
}

TEST_F(BlockShapes, NameTheRegions) {
  std::vector<std::string> regions;
  for (const BlockShapeRow& row : run_split_block(request_of(2, SequenceParallel::kOn))) {
    regions.emplace_back(to_string(row.region));
  }
  EXPECT_THAT(regions,
              ElementsAre("exit TP", "SP region", "enter TP", "TP region", "exit TP", "SP region",
                          "enter TP", "exit TP", "SP region", "enter TP", "TP region",  //
                          "TP region", "exit TP", "SP region", "enter TP", "exit TP", "SP region",
                          "enter TP", "TP region", "exit TP", "SP region", "enter TP"))
      << "the backward pass leaves where the forward pass has entered";
}

TEST_F(BlockShapes, ShowCopiesOfHeadsAndPadding) {
  BlockShapesRequest request = request_of(4, SequenceParallel::kOff);
  request.model.vocab_size = 30;
  auto rows = run_split_block(request);
  EXPECT_EQ(lines(rows[0])[1], "embed_tokens [8, 16] rows split by vocabulary: V/t, padded");
  EXPECT_EQ(rows[0].weights[0].whole, (Shape{30, 16}));
  EXPECT_EQ(lines(rows[2])[2], "k_proj [4, 16] rows by heads: one of k, each on 2 ranks");
  EXPECT_EQ(lines(rows[2])[5], "key [3, 8, 4] by heads: one of k, each on 2 ranks");
  request.model.num_kv_heads = 1;
  rows = run_split_block(request);
  EXPECT_EQ(lines(rows[2])[5], "key [3, 8, 4] whole") << "every rank has the only one";
}

// s/t = h/t = f/t = 8 and V/t = h = s = f = 16: nothing can be told from the sizes.
TEST_F(BlockShapes, AreToldApartWhereSizesCoincide) {
  const BlockShapesRequest request = {
      .model = {.vocab_size = 32,
                .hidden_size = 16,
                .num_layers = 1,
                .num_heads = 4,
                .num_kv_heads = 4,
                .ffn_hidden_size = 16,
                .max_seq_len = 16},
      .layout = {.tp = 2, .sequence_parallel = SequenceParallel::kOn},
      .batch = {.size = 16, .seq_len = 16}};
  const auto rows = run_split_block(request);
  EXPECT_EQ(lines(rows[2])[0], "input [16, 8, 16] split along the sequence: s/t");
  EXPECT_EQ(lines(rows[2])[4], "query [16, 16, 8] split by heads: h/t");
  EXPECT_EQ(lines(rows[6])[3], "gate [16, 16, 8] split by ffn: f/t");
  EXPECT_EQ(lines(rows[9])[2], "logits [16, 16, 16] split by vocabulary: V/t");
}

TEST_F(BlockShapes, RefuseASingleWrongShapeInAnyStep) {
  const BlockShapesRequest request = request_of(2, SequenceParallel::kOn);
  std::vector<RecordedStep> right;
  on_split_ranks(request.layout, [&](nn::LayerFactory& factory, bool first) {
    const Device own = Device::cpu();
    ShapeRecorder recorder(factory);
    nn::Model model(request.model, own, DType::kF32, 0, recorder);
    test::Random same(seed);
    test::run_step(model, test::random_micro_batch(same, own, {.vocab_size = 16}, 3, 8), 24);
    if (first) right = recorder.steps();
  });
  EXPECT_NO_THROW((void)block_shapes(request, right));
  const auto refused = [&](std::size_t step, auto&& change) {
    std::vector<RecordedStep> wrong = right;
    change(wrong[step]);
    EXPECT_THROW((void)block_shapes(request, wrong), InternalError) << right[step].name;
  };
  const auto longer = [](const Shape& shape) { return shape.with(-1, shape[-1] + 1); };
  for (std::size_t step = 0; step < right.size(); ++step) {
    for (std::size_t i = 0; i < right[step].inputs.size(); ++i) {
      refused(step, [&](auto& s) { s.inputs[i].shape = longer(s.inputs[i].shape); });
    }
    for (std::size_t i = 0; i < right[step].outputs.size(); ++i) {
      refused(step, [&](auto& s) { s.outputs[i].shape = longer(s.outputs[i].shape); });
    }
    for (std::size_t i = 0; i < right[step].weights.size(); ++i) {
      refused(step, [&](auto& s) { s.weights[i].shard = longer(s.weights[i].shard); });
      refused(step, [&](auto& s) { s.weights[i].whole = longer(s.weights[i].whole); });
    }
  }
  refused(0, [](auto& s) { s.outputs[0].name = "something"; });
  refused(2, [](auto& s) { s.weights[0].name = "something"; });
}

TEST_F(BlockShapes, RefuseLayoutsThatCannotBe) {
  nn::DenseFactory dense;
  const auto refusal = [&](const BlockShapesRequest& request) {
    return test::message_of<ConfigError>([&] { (void)run_block(request, dense, device); });
  };
  BlockShapesRequest request = request_of(2, SequenceParallel::kOn);
  request.batch.seq_len = 7;
  EXPECT_THAT(refusal(request), HasSubstr("7 % 2 = 1"));
  request.batch = {.size = 0, .seq_len = 8};
  EXPECT_THAT(refusal(request), HasSubstr("--micro-batch is 0"));
  EXPECT_THAT(refusal(request_of(3, SequenceParallel::kOff)), HasSubstr("--tp"));
}

// What a rank of these shapes keeps is what the closed forms say: chapter 01's Saved counts the bytes.
TEST_F(BlockShapes, KeepTheBytesOfTheClosedForms) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    const int tp = random.pick({1, 2, 3, 4});
    const auto t = static_cast<std::size_t>(tp);
    nn::ModelConfig config;
    config.num_kv_heads = random.pick({std::size_t{1}, t, 2 * t});
    config.num_heads = t * 2 * random.between(1, 2);
    if (config.num_heads % config.num_kv_heads != 0) config.num_kv_heads = t;
    config.hidden_size = config.num_heads * 2 * random.between(1, 3);
    config.ffn_hidden_size = t * random.between(1, 9);
    config.num_layers = random.between(1, 3);
    config.vocab_size = random.between(t + 1, 40);
    config.max_seq_len = t * random.between(1, 4);
    const memory::BatchShape batch{.size = random.between(1, 3), .seq_len = config.max_seq_len};
    for (const auto sequence_parallel : {SequenceParallel::kOff, SequenceParallel::kOn}) {
      const TensorParallelLayout layout{.tp = tp, .sequence_parallel = sequence_parallel};
      const std::size_t h = config.hidden_size;
      const std::size_t f = config.ffn_hidden_size;
      const std::size_t v = (config.vocab_size + t - 1) / t;
      const std::size_t kv = std::max<std::size_t>(config.num_kv_heads / t, 1) * config.head_dim();
      const std::size_t tokens = batch.tokens();
      const std::size_t l =
          layout.splits_sequences() ? tokens / t : tokens;  // between the matrices
      const std::size_t block = l * (4 * h + 2) + tokens * ((2 * h + 3 * f) / t + 2 * kv) +
                                tokens * (config.num_heads / t);
      const std::size_t outside = tokens + l * (2 * h + 1) + tokens * v;  // ids have 4 bytes too
      const std::size_t weights =
          config.num_layers * ((2 * h * h + 3 * h * f) / t + 2 * h * kv + 2 * h);
      on_split_ranks(layout, [&](nn::LayerFactory& factory, bool /*first*/) {
        nn::Model model(config, Device::cpu(), DType::kF32, 0, factory);
        const Tensor ids = Tensor::zeros(Device::cpu(), {batch.size, batch.seq_len}, DType::kI32);
        nn::Saved saved;
        const Tensor logits = model.forward(ids, saved);
        (void)model.loss(logits, ids, 1, saved);
        EXPECT_EQ(saved.bytes(), 4 * (outside + config.num_layers * block));
        EXPECT_EQ(model.parameter_count(), weights + 2 * v * h + h);
      });
    }
  }
}

// Tables of shapes.

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

TEST(BlockShapesTable, PrintOneLinePerTensor) {
  const BlockShapesRequest request = request_of(2, SequenceParallel::kOn);
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
  const auto rows = run_split_block(request_of(2, SequenceParallel::kOn));
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

// The Ultra-Scale Playbook's table: tensor parallelism alone, and with sequence parallelism.
TEST(BlockShapesTable, ComparesLayouts) {
  std::vector<LayoutRows> layouts;
  for (const auto sequence_parallel : {SequenceParallel::kOff, SequenceParallel::kOn}) {
    const BlockShapesRequest request = request_of(2, sequence_parallel);
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

}  // namespace
}  // namespace ultra::tensor_parallel
