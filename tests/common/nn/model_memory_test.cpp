// What a model's passes do to the memory.
#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::nn {
namespace {

using enum MemoryCategory;

class ModelMemoryTest : public test::RandomTest {
 protected:
  [[nodiscard]] std::size_t now(MemoryCategory category) const {
    return device.memory().current()[category];
  }

  ModelConfig config = test::random_model_config(random);
  DenseFactory factory;
  DType dtype = random.pick({DType::kF32, DType::kF64});
  Model model{config, device, dtype, seed, factory};
  test::MicroBatch batch =
      test::random_micro_batch(random, device, config, 2, random.between(1, config.max_seq_len));
};

TEST_F(ModelMemoryTest, ActivationsAreWhatTheSavedTreeHolds) {
  Saved saved;
  const Tensor logits = model.forward(batch.tokens, saved);
  EXPECT_EQ(now(kActivations), saved.bytes());
  static_cast<void>(model.loss(logits, batch.targets, 1.0, saved));
  EXPECT_EQ(now(kActivations), saved.bytes());
  model.backward(saved);
  batch.tokens = Tensor();  // saved once, so it counts as an activation until its owner drops it
  EXPECT_EQ(now(kActivations), logits.nbytes());
}

TEST_F(ModelMemoryTest, ABlockSavesTheTensorsThatTheTextLists) {
  const std::size_t tokens = batch.tokens.numel();
  Saved saved;
  static_cast<void>(model.forward(batch.tokens, saved));
  // Per token and block: two norms' inputs, their outputs (inputs of the projections), query and
  // attention output; key and value; gate, up and their product; a log-sum-exp per head and a
  // reciprocal RMS per norm.
  const std::size_t block = 6 * config.hidden_size + 2 * config.kv_hidden_size() +
                            3 * config.ffn_hidden_size + config.num_heads + 2;
  const std::size_t head = 2 * config.hidden_size + 1;  // the last norm and the head's input
  const std::size_t elements = tokens * (config.num_layers * block + head);
  EXPECT_EQ(saved.bytes(), elements * size_of(dtype) + batch.tokens.nbytes());
}

TEST_F(ModelMemoryTest, ActivationsFallWhileBackwardWalksDown) {
  std::vector<std::size_t> left;
  const HookHandle hook = model.add_part_hook({.backward = [&](const PartCall& call) {
    call.compute();
    const Range blocks = model.block_parts();
    if (call.part >= blocks.begin && call.part < blocks.end) left.push_back(now(kActivations));
  }});
  Saved saved;
  {
    const Tensor logits = model.forward(batch.tokens, saved);
    static_cast<void>(model.loss(logits, batch.targets, 1.0, saved));
  }
  std::size_t before = now(kActivations);
  model.backward(saved);
  for (const std::size_t bytes : left) {
    EXPECT_LT(bytes, before);
    before = bytes;
  }
  EXPECT_EQ(now(kActivations), batch.tokens.nbytes());
}

// What the first half of a split backward pass leaves for the second is held: per token and block the
// inputs of the matrices and the gradients of their outputs.
TEST_F(ModelMemoryTest, WhatWaitsForTheSecondHalfOfABackwardPassAreActivations) {
  const std::size_t tokens = batch.tokens.numel();
  Saved saved;
  DeferredGradients queue;
  static_cast<void>(model.loss(model.forward(batch.tokens, saved), batch.targets, 1.0, saved));
  const std::size_t others = now(kOther);
  model.defer_grads_to(&queue);
  model.backward(saved);
  model.defer_grads_to(nullptr);
  queue.pass_ends();
  EXPECT_EQ(now(kOther), others) << "nothing that a pass has left is a temporary result";

  const std::size_t hidden = config.hidden_size;
  const std::size_t inputs = 3 * hidden + config.ffn_hidden_size;
  const std::size_t gradients =
      3 * hidden + 2 * config.kv_hidden_size() + 2 * config.ffn_hidden_size;
  const std::size_t ends =
      2 * hidden + config.vocab_size;  // table's gradient; head's input, logits
  const std::size_t norms = (2 * config.num_layers + 1) * hidden;  // gradients of their weights
  EXPECT_EQ(now(kActivations),
            size_of(dtype) * (tokens * (config.num_layers * (inputs + gradients) + ends) + norms) +
                batch.tokens.nbytes());
  queue.run();
  EXPECT_EQ(now(kActivations), batch.tokens.nbytes());
}

}  // namespace
}  // namespace ultra::nn
