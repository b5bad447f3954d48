// Covers: chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp

#include "chapters/05_tensor_sequence_parallel/shapes/shape_recorder.hpp"

#include "chapters/01_memory/recompute.hpp"
#include "chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp"
#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::tensor_parallel {
namespace {

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

class ShapeRecorderTest : public test::RandomTest {
 protected:
  /// One pass forward and backward over 3 sequences of 5 tokens.
  double run(nn::LayerFactory& factory) {
    nn::Model model(config, device, DType::kF64, seed, factory);
    return test::run_step(model, batch, 15);
  }

  nn::ModelConfig config = small_model();
  test::MicroBatch batch = test::random_micro_batch(random, device, config, /*batch=*/3, /*seq=*/5);
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
  EXPECT_EQ(test::run_step(recorded, batch, 15), test::run_step(plain, batch, 15));
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
  test::run_step(model, batch, 15);
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

TEST(SplitShapes, OfModelsThatNoMachineRunsAreRefused) {
  const auto refusal = [](const nn::ModelConfig& model, std::size_t batch, int tp) {
    return test::message_of<ConfigError>([&] {
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
