// Covers: chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp

#include "chapters/05_tensor_sequence_parallel/shapes/shape_recorder.hpp"

#include "chapters/01_memory/recompute.hpp"
#include "chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp"
#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::tensor_parallel {
namespace {

using testing::ElementsAre;

/// h 8, 4 heads of 2, 2 key/value heads (kv 4), f 12, V 10.
nn::ModelConfig small_model() {
  return {.vocab_size = 10,
          .hidden_size = 8,
          .num_layers = 1,
          .num_heads = 4,
          .num_kv_heads = 2,
          .ffn_hidden_size = 12,
          .max_seq_len = 6};
}

class ShapeRecorderTest : public ultra::test::RandomTest {
 protected:
  /// One pass forward and backward over 3 sequences of 5 tokens.
  double run(nn::LayerFactory& factory) {
    nn::Model model(config, device, DType::kF64, seed, factory);
    return ultra::test::run_step(model, batch, 15);
  }

  nn::ModelConfig config = small_model();
  ultra::test::MicroBatch batch =
      ultra::test::random_micro_batch(random, device, config, /*batch=*/3, /*seq=*/5);
  nn::DenseFactory dense;
  ShapeRecorder recorder{dense};
};

std::vector<std::string> names_of(const std::vector<RecordedStep>& steps) {
  std::vector<std::string> names;
  for (const RecordedStep& step : steps) {
    names.push_back((step.pass == Pass::kForward ? "" : "d ") +
                    (step.layer ? std::to_string(*step.layer) + " " : "") + step.name);
  }
  return names;
}

TEST_F(ShapeRecorderTest, WritesTheStepsDownInTheOrderInWhichTheyRun) {
  run(recorder);
  EXPECT_THAT(
      names_of(recorder.steps()),
      ElementsAre("embed_tokens", "0 input_layernorm", "0 q_proj, k_proj, v_proj", "0 attention",
                  "0 o_proj", "0 post_attention_layernorm", "0 gate_proj, up_proj", "0 down_proj",
                  "norm", "lm_head", "loss",  //
                  "d loss", "d lm_head", "d norm", "d 0 down_proj", "d 0 gate_proj, up_proj",
                  "d 0 post_attention_layernorm", "d 0 o_proj", "d 0 attention",
                  "d 0 q_proj, k_proj, v_proj", "d 0 input_layernorm", "d embed_tokens"));
}

TEST_F(ShapeRecorderTest, KnowsTheBlockOfEachStep) {
  config.num_layers = 3;
  run(recorder);
  const std::vector<RecordedStep>& steps = recorder.steps();
  ASSERT_EQ(steps.size(), 2U * (1 + 3 * 7 + 3));
  EXPECT_EQ(steps[0].layer, std::nullopt) << "the embedding is in none";
  for (std::size_t i = 0; i < 3 * 7; ++i) EXPECT_EQ(steps[1 + i].layer, i / 7);
  EXPECT_EQ(steps[1 + 3 * 7].layer, std::nullopt) << "nor is the final norm";
}

// Counted by hand, all 22 steps: 3 sequences of 5 tokens.
TEST_F(ShapeRecorderTest, WritesDownTheForwardShapesOfADenseModel) {
  run(recorder);
  const auto forward = [](PartKind kind, std::optional<std::size_t> layer, const char* name,
                          std::vector<RecordedTensor> inputs, std::vector<RecordedTensor> outputs,
                          std::vector<RecordedWeight> weights) {
    return RecordedStep{.kind = kind,
                        .pass = Pass::kForward,
                        .layer = layer,
                        .name = name,
                        .inputs = std::move(inputs),
                        .outputs = std::move(outputs),
                        .weights = std::move(weights)};
  };
  const Shape x = {3, 5, 8};
  const std::vector<RecordedStep> expected = {
      forward(PartKind::kEmbedding, {}, "embed_tokens", {{"tokens", {3, 5}}}, {{"output", x}},
              {{"embed_tokens", {10, 8}, {10, 8}}}),
      forward(PartKind::kNorm, 0, "input_layernorm", {{"input", x}}, {{"output", x}},
              {{"input_layernorm", {8}, {8}}}),
      forward(PartKind::kColumnLinear, 0, "q_proj, k_proj, v_proj", {{"input", x}},
              {{"query", {3, 5, 8}}, {"key", {3, 5, 4}}, {"value", {3, 5, 4}}},
              {{"q_proj", {8, 8}, {8, 8}}, {"k_proj", {4, 8}, {4, 8}}, {"v_proj", {4, 8}, {4, 8}}}),
      forward(PartKind::kAttentionCore, 0, "attention",
              {{"query", {3, 5, 4, 2}}, {"key", {3, 5, 2, 2}}, {"value", {3, 5, 2, 2}}},
              {{"output", {3, 5, 4, 2}}}, {}),
      forward(PartKind::kRowLinear, 0, "o_proj", {{"input", x}}, {{"output", x}},
              {{"o_proj", {8, 8}, {8, 8}}}),
      forward(PartKind::kNorm, 0, "post_attention_layernorm", {{"input", x}}, {{"output", x}},
              {{"post_attention_layernorm", {8}, {8}}}),
      forward(PartKind::kColumnLinear, 0, "gate_proj, up_proj", {{"input", x}},
              {{"gate", {3, 5, 12}}, {"up", {3, 5, 12}}},
              {{"gate_proj", {12, 8}, {12, 8}}, {"up_proj", {12, 8}, {12, 8}}}),
      forward(PartKind::kRowLinear, 0, "down_proj", {{"input", {3, 5, 12}}}, {{"output", x}},
              {{"down_proj", {8, 12}, {8, 12}}}),
      forward(PartKind::kNorm, {}, "norm", {{"input", x}}, {{"output", x}}, {{"norm", {8}, {8}}}),
      forward(PartKind::kColumnLinear, {}, "lm_head", {{"input", x}}, {{"logits", {3, 5, 10}}},
              {{"lm_head", {10, 8}, {10, 8}}}),
      forward(PartKind::kLoss, {}, "loss", {{"logits", {3, 5, 10}}, {"targets", {3, 5}}}, {}, {})};
  ASSERT_GE(recorder.steps().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(recorder.steps()[i], expected[i]) << expected[i].name;
  }
}

// Backward is forward's mirror image: inputs and outputs exchanged, gradients of the same shapes.
TEST_F(ShapeRecorderTest, WritesDownGradientsOfTheSameShapes) {
  run(recorder);
  const std::vector<RecordedStep>& steps = recorder.steps();
  ASSERT_EQ(steps.size(), 22U);
  const auto with_d = [](auto found) {
    std::erase_if(found, [](const auto& x) { return x.name == "tokens" || x.name == "targets"; });
    for (auto& x : found) x.name.insert(0, "d_");
    return found;
  };
  for (std::size_t i = 0; i < 11; ++i) {
    const RecordedStep& forward = steps[i];
    const RecordedStep& backward = steps[21 - i];
    EXPECT_EQ(backward.name, forward.name);
    EXPECT_EQ(backward.kind, forward.kind);
    EXPECT_EQ(backward.inputs, with_d(forward.outputs)) << forward.name;
    EXPECT_EQ(backward.outputs, with_d(forward.inputs)) << forward.name;
    EXPECT_EQ(backward.weights, with_d(forward.weights)) << forward.name;
  }
}

TEST_F(ShapeRecorderTest, ChangesNothing) {
  nn::Model plain(config, device, DType::kF64, seed, dense);
  nn::Model recorded(config, device, DType::kF64, seed, recorder);
  EXPECT_EQ(ultra::test::run_step(recorded, batch, 15), ultra::test::run_step(plain, batch, 15));
  ASSERT_EQ(recorded.parameters().size(), plain.parameters().size());
  for (std::size_t i = 0; i < plain.parameters().size(); ++i) {
    EXPECT_EQ(recorded.parameters()[i]->name(), plain.parameters()[i]->name());
    EXPECT_EQ(recorded.parameters()[i]->grad().to_vector(),
              plain.parameters()[i]->grad().to_vector());
  }
  nn::Saved saved_plain;
  nn::Saved saved_recorded;
  (void)plain.forward(batch.tokens, saved_plain);
  (void)recorded.forward(batch.tokens, saved_recorded);
  EXPECT_EQ(saved_recorded.bytes(), saved_plain.bytes());
}

TEST_F(ShapeRecorderTest, ForgetsAndMayGoBeforeTheModel) {
  std::unique_ptr<nn::Model> model;
  {
    ShapeRecorder short_lived(dense);
    model = std::make_unique<nn::Model>(config, device, DType::kF64, seed, short_lived);
    ultra::test::run_step(*model, batch, 15);
    EXPECT_EQ(short_lived.steps().size(), 22U);
    short_lived.clear();
    EXPECT_TRUE(short_lived.steps().empty());
    ultra::test::run_step(*model, batch, 15);
    EXPECT_EQ(short_lived.steps().size(), 22U);
  }
  EXPECT_NO_THROW(ultra::test::run_step(*model, batch, 15));
}

// Recomputation inside the recorder or around it: layers that run again are written down again, single
// tensors that are made again are not.
TEST_F(ShapeRecorderTest, WritesDownWhatIsRecomputed) {
  memory::RecomputeFactory inside(dense, {.mode = memory::Recompute::kSelective});
  ShapeRecorder around(inside);
  run(around);
  EXPECT_EQ(around.steps().size(), 22U);
  memory::RecomputeFactory outside(recorder, {.mode = memory::Recompute::kFull});
  run(outside);
  EXPECT_EQ(recorder.steps().size(), 22U + 7) << "the block's forward pass";
}

TEST_F(ShapeRecorderTest, LeavesOutGradientsThatArePutOff) {
  nn::Model model(config, device, DType::kF64, seed, recorder);
  nn::DeferredGradients later;
  model.defer_grads_to(&later);
  ultra::test::run_step(model, batch, 15);
  for (const RecordedStep& step : recorder.steps()) {
    if (step.pass == Pass::kBackward) {
      EXPECT_TRUE(step.weights.empty()) << step.name;
    }
  }
  later.run();
}

// What is refused before a block is run.

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
