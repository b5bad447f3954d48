#include "common/nn/model.hpp"

#include <csignal>

#include "common/base/interrupt.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::nn {
namespace {

class ModelTest : public test::RandomTest {
 protected:
  [[nodiscard]] Model make(DType dtype = DType::kF64) {
    return Model(config, device, dtype, seed, factory);
  }

  [[nodiscard]] test::MicroBatch draw_batch() {
    return test::random_micro_batch(random, device, config, random.between(1, 3),
                                    random.between(1, config.max_seq_len));
  }

  ModelConfig config = test::random_model_config(random);
  DenseFactory factory;
};

/// A signal comes while the first blocks are made.
class InterruptingFactory : public DenseFactory {
 public:
  std::unique_ptr<Layer> block(const BuildContext& context, std::size_t layer) override {
    ++blocks;
    if (layer == 2) static_cast<void>(std::raise(SIGTERM));
    return DenseFactory::block(context, layer);
  }

  std::size_t blocks = 0;
};

TEST_F(ModelTest, ASignalEndsItsMakingBeforeTheNextBlock) {
  config.num_layers = 1000;
  InterruptingFactory interrupting;
  const InterruptGuard guard;
  EXPECT_THROW(Model(config, device, DType::kF64, seed, interrupting), Interrupted);
  EXPECT_EQ(interrupting.blocks, 3U);
}

TEST_F(ModelTest, GradientsMatchFiniteDifferences) {
  for (int round = 0; round < 3; ++round) {
    config = test::random_model_config(random);
    config.norm_epsilon = 0.1;
    Model model = make();
    test::randomize_weights(random, model);
    const test::MicroBatch batch = draw_batch();
    const double tokens = count_of(batch.tokens.numel());
    SCOPED_TRACE(batch.tokens.shape().str());
    const double loss = test::run_step(model, batch, tokens);
    const auto f = [&] {
      Saved discard(Saved::Mode::kDiscard);
      return model.loss(model.forward(batch.tokens, discard), batch.targets, tokens, discard);
    };
    EXPECT_EQ(f(), loss);  // a forward pass that keeps nothing computes the same
    std::vector<test::Differentiated> at;
    for (Parameter* p : model.parameters()) {
      at.push_back({p->name(), p->value(), p->grad()});
    }
    EXPECT_TRUE(test::gradients_match(random, f, at, 4));
  }
}

TEST_F(ModelTest, SinglePrecisionFollowsDoublePrecision) {
  Model f32 = make(DType::kF32);
  Model f64 = make(DType::kF64);
  const test::MicroBatch batch = draw_batch();
  const double tokens = count_of(batch.tokens.numel());
  const double expected = test::run_step(f64, batch, tokens);
  const double bound = test::rounding_bound(
      DType::kF32, test::model_roundings(config, batch.tokens.size(1)), expected);
  EXPECT_NEAR(test::run_step(f32, batch, tokens), expected, bound);
}

TEST_F(ModelTest, BackwardNeedsItsForward) {
  Model model = make();
  Saved saved;
  EXPECT_THAT(message_of<InternalError>([&] { model.backward(saved); }),
              HasSubstr("no saved activation 'd_logits'"));
  const test::MicroBatch batch = draw_batch();
  const Tensor logits = model.forward(batch.tokens, saved);
  static_cast<void>(model.loss(logits, batch.targets, 1.0, saved));
  model.backward(saved);
  EXPECT_THROW(model.backward(saved), InternalError);  // a second time
}

TEST_F(ModelTest, MicroBatchesAddUpToTheWholeBatch) {
  Model model = make();
  const std::size_t seq = random.between(1, config.max_seq_len);
  const std::size_t count = random.between(2, 4);
  const test::MicroBatch whole = test::random_micro_batch(random, device, config, count, seq);
  const double tokens = count_of(count * seq);
  const double loss = test::run_step(model, whole, tokens);
  const std::vector<Tensor> gradients = test::gradients_of(model);
  const double magnitude = tokens * test::largest_gradient(model);
  model.drop_grads();
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += test::run_step(
        model, {whole.tokens.slice(0, {i, i + 1}), whole.targets.slice(0, {i, i + 1})}, tokens);
  }
  const double roundings = 2 * test::model_roundings(config, seq);
  EXPECT_NEAR(sum, loss, test::rounding_bound(DType::kF64, roundings, loss));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_TRUE(test::all_near(model.parameters()[i]->grad(), gradients[i],
                               test::rounding_bound(DType::kF64, roundings, magnitude)))
        << model.parameters()[i]->name();
  }
}

TEST_F(ModelTest, OverlongSequencesAndBadStagesAreNamed) {
  Model model = make();
  Saved saved;
  const Tensor tokens = Tensor::zeros(device, {1, config.max_seq_len + 1}, DType::kI32);
  EXPECT_THAT(
      message_of<ShapeError>([&] { static_cast<void>(model.forward(tokens, saved)); }),
      HasSubstr("a sequence of " + std::to_string(config.max_seq_len + 1) +
                " tokens is longer than the model's " + std::to_string(config.max_seq_len)));
  const std::size_t layers = config.num_layers;
  for (const Range range : {Range{0, layers + 1}, Range{1, 0}}) {
    EXPECT_THAT(message_of<ConfigError>([&] {
                  const Model stage(config, device, DType::kF32, seed, factory, {.layers = range});
                }),
                HasSubstr("does not fit a model of " + std::to_string(layers) + " layers"));
  }
  config.num_heads = 0;
  EXPECT_THROW(static_cast<void>(make()), ConfigError);
}

}  // namespace
}  // namespace ultra::nn
