#include "chapters/01_memory/recompute.hpp"

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/01_memory/model_presets.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra {
namespace {

using memory::Recompute;
using memory::RecomputeConfig;

/// What a step gives and what it keeps.
struct Outcome {
  double loss;
  std::vector<Tensor> grads;
  std::size_t kept_bytes;  // by the blocks, between forward and backward
};

/// The tokens on a device whose memory counts only what one run allocates.
Tensor copy_to(const Device& device, const Tensor& tokens) {
  return Tensor::from<std::int32_t>(device, tokens.shape(), tokens.span<std::int32_t>());
}

class RecomputeLayers : public test::RandomTest {
 protected:
  Outcome run(const RecomputeConfig& recompute, DType dtype) {
    nn::DenseFactory dense;
    memory::RecomputeFactory factory(dense, recompute);
    const Device own = Device::cpu();
    nn::Model model(config, own, dtype, seed, factory);
    test::Random weights(seed);
    test::randomize_weights(weights, model);
    nn::Saved saved;
    Outcome outcome{};
    {
      const Tensor logits = model.forward(copy_to(own, tokens), saved);
      outcome.kept_bytes = saved.child("blocks").bytes();
      outcome.loss = model.loss(logits, targets, static_cast<double>(targets.numel()), saved);
    }
    model.backward(saved);
    outcome.grads = test::gradients_of(model);
    EXPECT_EQ(own.memory().peak(MemoryCategory::kActivations).bytes,
              memory::peak_activation_bytes(memory::shape_of(config),
                                            {.size = tokens.size(0), .seq_len = tokens.size(1)},
                                            memory::precision_of(dtype), recompute))
        << "bytes of activations at the peak";
    EXPECT_TRUE(saved.empty()) << "backward must consume what forward has saved";
    return outcome;
  }

  void expect_bitwise(const Outcome& recomputed, const Outcome& baseline) {
    EXPECT_EQ(recomputed.loss, baseline.loss) << "the forward pass must not change";
    for (std::size_t i = 0; i < baseline.grads.size(); ++i) {
      EXPECT_TRUE(test::all_equal(recomputed.grads[i], baseline.grads[i]))
          << "gradient " << i << " differs.\nHint: backward must see exactly the tensors of the "
          << "forward pass: compute each again from the input that was kept for it, with the same "
          << "operations.";
    }
  }

  nn::ModelConfig config = test::random_model_config(random);
  test::MicroBatch batch = test::random_micro_batch(random, device, config, random.between(1, 3),
                                                    random.between(1, config.max_seq_len));
  Tensor tokens = batch.tokens;
  Tensor targets = batch.targets;
};

TEST_F(RecomputeLayers, FullIsBitwiseEqualAndKeepsOneInputPerGroup) {
  config.num_layers = random.between(2, 5);
  for (const DType dtype : test::kFloatDTypes) {
    const Outcome baseline = run({}, dtype);
    for (std::size_t every = 1; every <= config.num_layers + 1; ++every) {
      SCOPED_TRACE("every " + std::to_string(every) + " of " + std::to_string(config.num_layers));
      const RecomputeConfig full{.mode = Recompute::kFull, .recompute_every = every};
      const Outcome outcome = run(full, dtype);
      expect_bitwise(outcome, baseline);
      const std::size_t groups = (config.num_layers + every - 1) / every;
      const std::size_t input = tokens.numel() * config.hidden_size * size_of(dtype);
      EXPECT_EQ(outcome.kept_bytes, groups * input)
          << "Hint: only the input of each group may stay between forward and backward. Give the "
             "wrapped layer's forward pass a Saved that discards.";
    }
  }
}

TEST(FullRecomputation, RunsTheSamePassAgain) {
  /// Passes everything through, and writes down for which pass.
  class Recorder : public nn::Layer {
   public:
    explicit Recorder(std::vector<nn::Pass>& passes) : passes_(passes) {}
    Tensor forward(const Tensor& x, nn::Saved& saved) override {
      passes_.push_back(saved.pass());
      return x;
    }
    Tensor backward(const Tensor& d_y, nn::Saved&) override { return d_y; }

   private:
    std::vector<nn::Pass>& passes_;
  };
  std::vector<nn::Pass> passes;
  memory::FullRecompute layer(std::make_unique<Recorder>(passes));
  nn::Saved saved(nn::Saved::Mode::kKeep, {.step = 5, .micro_batch = 2});
  const Tensor x = Tensor::zeros(Device::cpu(), {1, 1, 2}, DType::kF64);
  static_cast<void>(layer.backward(layer.forward(x, saved), saved));
  ASSERT_EQ(passes.size(), 2U) << "Hint: the wrapped layer runs forward twice.";
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(passes[i].step == 5 && passes[i].micro_batch == 2 &&
                passes[i].recomputes == (i == 1))
        << "Hint: both forward passes belong to the micro-batch of `saved`: give the first one "
           "saved.pass(), and make the Saved of the second by saved.recomputing().";
  }
}

TEST_F(RecomputeLayers, SelectiveIsBitwiseEqualAndDropsWhatIsCheap) {
  for (const DType dtype : test::kFloatDTypes) {
    const Outcome baseline = run({}, dtype);
    const Outcome outcome = run({.mode = Recompute::kSelective}, dtype);
    expect_bitwise(outcome, baseline);
    const std::size_t dropped = config.num_layers * tokens.numel() *
                                (2 * config.hidden_size + config.ffn_hidden_size) * size_of(dtype);
    EXPECT_EQ(baseline.kept_bytes - outcome.kept_bytes, dropped)
        << "Hint: all that kept.remakeables() lists is forgotten: in a block the outputs of both "
           "norms (tokens x hidden) and the SwiGLU product (tokens x ffn).";
  }
}

/// A tree as two layers leave it that use one tensor: y = -x can be made again, x must stay.
struct TwoUses {
  TwoUses() {
    const Tensor x = Tensor::zeros(device, {4}, DType::kF64);
    x.fill(3.0);
    const auto negated = [x] {
      Tensor y = Tensor::zeros(x.device(), {4}, DType::kF64);
      y.fill(-x.data<double>()[0]);
      return y;
    };
    const Tensor y = negated();
    kept.put("x", x);
    kept.child("first").put("input", y);
    kept.child("second").child("deep").put("input", y);
    kept.remakeable(y, negated);
  }
  [[nodiscard]] std::size_t bytes() const { return device.memory().current().total(); }

  Device device = Device::cpu();
  nn::Saved kept{nn::Saved::Mode::kRemake};
};

TEST(SelectiveRecomputation, ForgetsWhatCanBeMadeAgain) {
  TwoUses two;
  memory::forget_remakeable(two.kept);
  EXPECT_TRUE(two.kept.has("x")) << "Hint: what nobody can make again stays.";
  EXPECT_FALSE(two.kept.child("first").has("input") ||
               two.kept.child("second").child("deep").has("input"))
      << "Hint: several layers may save one tensor: find it by its storage, and drop it under "
         "every path.";
  EXPECT_EQ(two.bytes(), 4 * sizeof(double)) << "Hint: memory is free when nobody holds the tensor "
                                                "any more: remakeables() holds each tensor "
                                                "too.";
}

TEST(SelectiveRecomputation, MakesItAgainWhereItWas) {
  TwoUses two;
  memory::forget_remakeable(two.kept);
  memory::remake(two.kept);
  nn::Saved& first = two.kept.child("first");
  nn::Saved& deep = two.kept.child("second").child("deep");
  ASSERT_TRUE(first.has("input") && deep.has("input"))
      << "Hint: put the tensor back under every path from which it was dropped.";
  EXPECT_THAT(first.get("input").to_vector(), ::testing::Each(-3.0));
  EXPECT_TRUE(first.get("input").shares_storage(deep.get("input")))
      << "Hint: it was one tensor, put under all its paths.";
  first.drop("input");
  deep.drop("input");
  two.kept.drop("x");
  EXPECT_EQ(two.bytes(), 0U) << "Hint: whoever makes a tensor again holds what it is made from: "
                                "empty remakeables(), so that "
                                "the backward pass frees what it has used.";
}

}  // namespace
}  // namespace ultra
