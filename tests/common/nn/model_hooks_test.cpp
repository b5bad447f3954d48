// The seams of a whole model: gradients that are ready, hooks around blocks and parts, weights that
// are here for a while only, deferred weight gradients.
//
// Covers: common/nn/hooks.hpp

#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::nn {
namespace {

class ModelHooksTest : public test::RandomTest {
 protected:
  [[nodiscard]] test::MicroBatch draw_batch() {
    return test::random_micro_batch(random, device, config, 2,
                                    random.between(1, config.max_seq_len));
  }

  /// The block that a parameter belongs to: embedding 0, block i at i + 1, norm and head last.
  [[nodiscard]] std::size_t depth_of(const Parameter& p) const {
    const std::string prefix = "model.layers.";
    if (p.name().rfind(prefix, 0) == 0) return std::stoul(p.name().substr(prefix.size())) + 1;
    return p.name() == "model.embed_tokens.weight" ? 0 : config.num_layers + 1;
  }

  [[nodiscard]] static std::vector<std::string> names_of(const std::vector<Parameter*>& all) {
    std::vector<std::string> names;
    for (const Parameter* p : all) names.push_back(p->name());
    return names;
  }

  /// The whole model; then some of its blocks, with and without the ends.
  [[nodiscard]] std::vector<StageSpec> draw_stages() {
    std::vector<StageSpec> stages = {StageSpec::whole(config)};
    for (const bool has_embedding : {true, false}) {
      for (const bool has_head : {true, false}) {
        const std::size_t begin = random.between(0, config.num_layers);
        const std::size_t end = random.between(begin, config.num_layers);
        stages.push_back(
            {.layers = {begin, end}, .has_embedding = has_embedding, .has_head = has_head});
      }
    }
    return stages;
  }

  /// A pass through a stage, forward and back.
  void run_stage(Model& stage, const StageSpec& spec);

  ModelConfig config = test::random_model_config(random);
  DenseFactory factory;
  Model model{config, device, DType::kF64, seed, factory};
  std::vector<HookHandle> hooks;
};

void ModelHooksTest::run_stage(Model& stage, const StageSpec& spec) {
  const test::MicroBatch batch = draw_batch();
  const Shape hidden = {batch.tokens.size(0), batch.tokens.size(1), config.hidden_size};
  Saved saved;
  const Tensor y = stage.forward(
      spec.has_embedding ? batch.tokens : random.tensor(device, hidden, DType::kF64), saved);
  if (spec.has_head) {
    static_cast<void>(stage.loss(y, batch.targets, 1.0, saved));
    stage.backward(saved);
  } else {
    stage.backward(random.tensor(device, hidden, DType::kF64), saved);
  }
}

TEST_F(ModelHooksTest, EveryGradientIsReadyOncePerMicroBatchInBackwardOrder) {
  std::vector<std::string> ready;
  for (Parameter* p : model.parameters()) {
    hooks.push_back(p->on_grad_ready([&](Parameter& one) { ready.push_back(one.name()); }));
  }
  std::vector<std::string> expected = names_of(model.parameters());
  std::reverse(expected.begin(), expected.end());
  for (int micro_batch = 1; micro_batch <= 3; ++micro_batch) {
    ready.clear();
    test::run_step(model, draw_batch(), 1.0);
    EXPECT_EQ(ready, expected) << "exactly the reverse of the forward order";
  }
}

TEST_F(ModelHooksTest, AWeightIsReadBeforeItsGradientIsMade) {
  const test::MicroBatch batch = draw_batch();
  const double loss = test::run_step(model, batch, 1.0);
  const std::vector<Tensor> expected = test::gradients_of(model);
  model.drop_grads();
  for (Parameter* p : model.parameters()) {
    hooks.push_back(p->on_grad_ready([](Parameter& ready) { ready.value().fill(1e9); }));
  }
  EXPECT_EQ(test::run_step(model, batch, 1.0), loss);
  const std::vector<Tensor> found = test::gradients_of(model);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(test::all_equal(found[i], expected[i])) << model.parameters()[i]->name();
  }
}

TEST_F(ModelHooksTest, PartsAreEmbeddingBlocksAndHeadAndHoldEveryParameter) {
  for (const StageSpec& spec : draw_stages()) {
    const Model stage(config, device, DType::kF64, seed, factory, spec);
    std::vector<std::string> names;
    if (spec.has_embedding) names.emplace_back("embedding");
    for (std::size_t layer = spec.layers.begin; layer < spec.layers.end; ++layer) {
      names.push_back("block " + std::to_string(layer));
    }
    if (spec.has_head) names.emplace_back("head");
    std::vector<std::string> found;
    std::vector<Parameter*> parameters;
    for (const ModelPart& part : stage.parts()) {
      found.push_back(part.name);
      parameters.insert(parameters.end(), part.parameters.begin(), part.parameters.end());
    }
    EXPECT_EQ(found, names);
    EXPECT_EQ(parameters, stage.parameters());
  }
}

TEST_F(ModelHooksTest, PartHooksSurroundEachPartForwardAndBack) {
  for (const StageSpec& spec : draw_stages()) {
    Model stage(config, device, DType::kF64, seed, factory, spec);
    std::vector<std::string> calls;
    const auto record = [&](const std::string& pass) {
      return [&calls, pass](const PartCall& call) {
        calls.push_back("before " + pass + std::to_string(call.part));
        call.compute();
        calls.push_back("after " + pass + std::to_string(call.part));
      };
    };
    const HookHandle hook =
        stage.add_part_hook({.forward = record("forward "), .backward = record("backward ")});
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < stage.parts().size(); ++i) {
      expected.push_back("before forward " + std::to_string(i));
      expected.push_back("after forward " + std::to_string(i));
    }
    for (std::size_t i = stage.parts().size(); i-- > 0;) {
      expected.push_back("before backward " + std::to_string(i));
      expected.push_back("after backward " + std::to_string(i));
    }
    run_stage(stage, spec);
    EXPECT_EQ(calls, expected) << "layers [" << spec.layers.begin << ", " << spec.layers.end
                               << "), embedding " << spec.has_embedding << ", head "
                               << spec.has_head;
  }
}

TEST_F(ModelHooksTest, GradientsOfAPartAreReadyBetweenItsHooks) {
  std::size_t entered = model.parts().size();  // none
  hooks.push_back(model.add_part_hook({.backward = [&](const PartCall& call) {
    entered = call.part;
    call.compute();
    entered = model.parts().size();
  }}));
  for (Parameter* p : model.parameters()) {
    hooks.push_back(
        p->on_grad_ready([&](Parameter& ready) { EXPECT_EQ(entered, depth_of(ready)); }));
  }
  test::run_step(model, draw_batch(), 1.0);
}

TEST_F(ModelHooksTest, EmptyPartHooksAreNotCalledAndSeveralNestUntilTheirHandlesAreGone) {
  std::vector<std::string> calls;
  const auto record = [&](const std::string& who) {
    return [&calls, who](const PartCall& call) {
      calls.push_back(who + std::to_string(call.part));
      call.compute();
      calls.push_back(who);
    };
  };
  hooks.push_back(model.add_part_hook({}));
  hooks.push_back(model.add_part_hook({.forward = record("first ")}));
  hooks.push_back(model.add_part_hook({.forward = record("second ")}));
  test::run_step(model, draw_batch(), 1.0);
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < model.parts().size(); ++i) {
    const std::string part = std::to_string(i);
    expected.insert(expected.end(), {"first " + part, "second " + part, "second ", "first "});
  }
  EXPECT_EQ(calls, expected);
  hooks.clear();
  calls.clear();
  test::run_step(model, draw_batch(), 1.0);
  EXPECT_TRUE(calls.empty());
}

TEST_F(ModelHooksTest, DeferredWeightsTakeNoMemory) {
  const auto bytes = [&] { return device.memory().current()[MemoryCategory::kParameters]; };
  const std::size_t before = bytes();
  for (const StageSpec& spec : draw_stages()) {
    const Model stage(config, device, DType::kF64, seed, factory, spec, Values::kDeferred);
    EXPECT_EQ(bytes(), before);
    for (const Parameter* p : stage.parameters()) EXPECT_FALSE(p->has_value()) << p->name();
  }
  const Model deferred(config, device, DType::kF64, seed, factory, StageSpec::whole(config),
                       Values::kDeferred);
  EXPECT_EQ(names_of(deferred.parameters()), names_of(model.parameters()));
  EXPECT_EQ(deferred.parameter_count(), model.parameter_count());
}

TEST_F(ModelHooksTest, WeightsThatAreHereForTheirPartOnlyGiveTheSameGradientsBitwise) {
  const auto memory = [&] { return device.memory(); };
  const std::size_t before = memory().current()[MemoryCategory::kParameters];
  Model sharded(config, device, DType::kF64, seed, factory, StageSpec::whole(config),
                Values::kDeferred);
  const auto bring = [&](std::size_t part) {
    for (Parameter* p : sharded.parts()[part].parameters) {
      p->set_value(Tensor::empty(device, p->shape(), p->dtype(), MemoryCategory::kParameters));
      p->initial_values_into(p->value());
    }
  };
  const auto drop = [&](std::size_t part) {
    for (Parameter* p : sharded.parts()[part].parameters) p->drop_value();
  };
  const auto around = [&](const PartCall& call) {
    bring(call.part);
    call.compute();
    drop(call.part);
  };
  hooks.push_back(sharded.add_part_hook({.forward = around, .backward = around}));
  device.reset_memory_peaks();
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    const test::MicroBatch batch = draw_batch();
    EXPECT_EQ(test::run_step(sharded, batch, 1.0), test::run_step(model, batch, 1.0));
  }
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const Parameter& p = *sharded.parameters()[i];
    EXPECT_TRUE(test::all_equal(p.grad(), model.parameters()[i]->grad())) << p.name();
    EXPECT_FALSE(p.has_value()) << p.name();
  }
  std::size_t largest = 0;
  for (const ModelPart& part : sharded.parts()) {
    std::size_t count = 0;
    for (const Parameter* p : part.parameters) count += p->count();
    largest = std::max(largest, count * sizeof(double));
  }
  EXPECT_EQ(memory().current()[MemoryCategory::kParameters], before);
  EXPECT_EQ(memory().peak(MemoryCategory::kParameters).bytes, before + largest)
      << "one part at a time";
}

}  // namespace
}  // namespace ultra::nn
