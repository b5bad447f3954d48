// Covers: common/nn/layers/chunked_head.hpp

#include "common/nn/layers/linear.hpp"

#include <map>

#include "common/nn/layers/chunked_head.hpp"
#include "common/nn/model.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::nn {
namespace {

class LinearTest : public LayerTest {
 protected:
  [[nodiscard]] ParameterSpec weight(const char* name, std::size_t out, std::size_t in) const {
    return weight_spec(
        {.name = name, .in_features = in, .out_features = out, .standard_deviation = 0.3});
  }
};

TEST_F(LinearTest, TheWeightIsOutByIn) {
  const ParameterSpec spec = weight("w", 5, 3);
  EXPECT_EQ(spec.name, "w");
  EXPECT_EQ(spec.global_shape, (Shape{5, 3}));
  EXPECT_TRUE(spec.shard.empty());
  EXPECT_EQ(spec.initializer.standard_deviation, 0.3);
}

TEST_F(LinearTest, ForwardIsXTimesTheTransposedWeight) {
  const std::size_t in = random.between(1, 20);
  const std::size_t out = random.between(1, 20);
  DenseLinear linear(weight("w", out, in), device, DType::kF64, seed);
  const Tensor x = random.tensor(device, {2, 3, in}, DType::kF64);
  Saved saved;
  const Tensor y = linear.forward(x, saved);
  ASSERT_EQ(y.shape(), (Shape{2, 3, out}));
  const std::vector<double> xs = x.to_vector();
  const std::vector<double> ws = linear.parameters()[0]->value().to_vector();
  std::vector<double> expected;
  std::vector<double> tolerances;
  for (std::size_t i = 0; i < 6 * out; ++i) {
    double sum = 0.0;
    double size = 0.0;
    for (std::size_t k = 0; k < in; ++k) {
      const double term = xs[i / out * in + k] * ws[i % out * in + k];
      sum += term;
      size += std::abs(term);
    }
    expected.push_back(sum);
    tolerances.push_back(test::rounding_bound(DType::kF64, 2 * test::count_of(in), size));
  }
  EXPECT_TRUE(test::all_near(y, expected, tolerances));
  EXPECT_TRUE(saved.get("input").shares_storage(x));
}

TEST_F(LinearTest, GradientsMatchFiniteDifferences) {
  DenseLinear linear(weight("w", random.between(1, 7), 4), device, DType::kF64, seed);
  check_layer(linear, random.tensor(device, {2, random.between(1, 5), 4}, DType::kF64));
}

TEST_F(LinearTest, ProjectionsSumTheGradientsOfTheirSharedInput) {
  DenseProjections maps({weight("q", 3, 4), weight("k", 5, 4), weight("v", 1, 4)}, device,
                        DType::kF64, seed);
  const Tensor x = random.tensor(device, {2, 3, 4}, DType::kF64);
  Saved saved;
  const std::vector<Tensor> y = maps.forward(x, saved);
  ASSERT_EQ(y.size(), 3U);
  std::vector<Tensor> d_y;
  for (const Tensor& one : y) d_y.push_back(random.tensor(device, one.shape(), DType::kF64));
  const Tensor d_x = maps.backward(d_y, saved);
  EXPECT_TRUE(saved.empty());
  std::vector<test::Differentiated> at = {{"x", x, d_x}};
  for (Parameter* p : maps.parameters()) at.push_back({p->name(), p->value(), p->grad().clone()});
  const auto f = [&] {
    Saved discard(Saved::Mode::kDiscard);
    const std::vector<Tensor> outputs = maps.forward(x, discard);
    double sum = 0.0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      sum += test::inner_product(d_y[i], outputs[i]);
    }
    return sum;
  };
  EXPECT_TRUE(test::gradients_match(random, f, at));
}

TEST_F(LinearTest, AShardIsALinearMapOfItsRows) {
  ParameterSpec half = weight("w", 6, 4);
  half.shard = {{2, 5}, {0, 4}};
  DenseLinear whole(weight("w", 6, 4), device, DType::kF64, seed);
  DenseLinear shard(half, device, DType::kF64, seed);
  EXPECT_TRUE(test::all_equal(shard.parameters()[0]->value(),
                              whole.parameters()[0]->value().slice(0, {2, 5})));
  Saved saved;
  EXPECT_EQ(shard.forward(random.tensor(device, {1, 2, 4}, DType::kF64), saved).shape(),
            (Shape{1, 2, 3}));
}

TEST_F(LinearTest, AnInputOfTheWrongWidthIsNamed) {
  DenseLinear linear(weight("w", 2, 4), device, DType::kF32, seed);
  Saved saved;
  const std::string message = test::message_of<ShapeError>([&] {
    static_cast<void>(linear.forward(Tensor::zeros(device, {1, 3, 5}, DType::kF32), saved));
  });
  EXPECT_THAT(message, ::testing::HasSubstr("[3, 5] x [4, 2]"));
}

TEST_F(LinearTest, BackwardNeedsOneGradientPerMap) {
  DenseProjections maps({weight("a", 3, 4), weight("b", 5, 4)}, device, DType::kF64, seed);
  Saved saved;
  const std::vector<Tensor> y = maps.forward(random.tensor(device, {1, 2, 4}, DType::kF64), saved);
  EXPECT_THROW(static_cast<void>(maps.backward(std::span(y).first(1), saved)), InternalError);
}

class ChunkedHeadTest : public test::RandomTest {
 protected:
  /// Loss and gradients, by name, of one pass of a model whose head has so many pieces.
  struct Step {
    double loss = 0;
    std::map<std::string, Tensor> gradients = {};
    std::size_t activations = 0;  // bytes, at the highest
    std::size_t uses = 0;         // of the output matrix
  };
  [[nodiscard]] Step step(std::size_t pieces, const test::MicroBatch& batch) {
    config.head_chunks = pieces;
    const Device own = Device::cpu();
    Model model(config, own, DType::kF64, seed, factory);
    model.drop_grads();
    Step step{.uses = model.uses(*model.parameters().back())};
    Saved saved;
    {
      const Tensor output = model.forward(batch.tokens, saved);
      step.loss = model.loss(output, batch.targets, 7.0, saved);
    }
    model.backward(saved);
    EXPECT_TRUE(saved.empty());
    for (const Parameter* p : model.parameters()) step.gradients.emplace(p->name(), p->grad());
    step.activations = own.memory().peak(MemoryCategory::kActivations).bytes;
    return step;
  }

  ModelConfig config = test::random_model_config(random);
  DenseFactory factory;
};

TEST_F(ChunkedHeadTest, ComputesWhatOnePieceComputes) {
  for (int round = 0; round < 6; ++round) {
    config = test::random_model_config(random);
    config.max_seq_len = random.between(3, 9);
    const std::size_t sequences = random.between(1, 3);
    const test::MicroBatch batch =
        test::random_micro_batch(random, device, config, sequences, config.max_seq_len);
    const Step whole = step(1, batch);
    EXPECT_EQ(whole.uses, 1U);
    const std::size_t pieces = random.between(2, sequences * config.max_seq_len);
    const Step found = step(pieces, batch);
    EXPECT_EQ(found.uses, pieces) << "each piece is a term of the matrix's gradient";
    EXPECT_NEAR(found.loss, whole.loss, 1e-13 * whole.loss);
    for (const auto& [name, gradient] : whole.gradients) {
      const double size = test::largest_magnitude(gradient.to_vector());
      EXPECT_TRUE(test::all_near(found.gradients.at(name), gradient, 1e-12 * size)) << name;
    }
  }
}

// Pass::loss_sum, as on a device: what the backward pass computes again is not added again.
TEST_F(ChunkedHeadTest, ALossThatIsAddedUpElsewhereIsAddedOnce) {
  config.max_seq_len = 5;
  const test::MicroBatch batch = test::random_micro_batch(random, device, config, 2, 5);
  const double expected = step(1, batch).loss;
  config.head_chunks = 3;
  Model model(config, device, DType::kF64, seed, factory);
  const Tensor sum = Tensor::zeros(device, {1}, DType::kF64);
  Saved saved(Saved::Mode::kKeep, {.loss_sum = sum});
  const Tensor output = model.forward(batch.tokens, saved);
  EXPECT_EQ(model.loss(output, batch.targets, 7.0, saved), 0.0);
  model.backward(saved);
  EXPECT_NEAR(sum.to_vector().front(), expected, 1e-13 * expected);
}

/// Ranks of sequence parallelism, as the head sees them: it puts this rank's tokens and those of another
/// one behind each other, and keeps the gradient of its own.
class OfTwoRanks : public Projections {
 public:
  explicit OfTwoRanks(const Tensor& other) : other_(other) {}
  std::vector<Tensor> forward(const Tensor& x, Saved&) override {
    const Tensor all = Tensor::empty(x.device(), {x.size(0), 2 * x.size(1), x.size(2)}, x.dtype());
    all.slice(1, {0, x.size(1)}).copy_from(x);
    all.slice(1, {x.size(1), 2 * x.size(1)})
        .copy_from(other_.slice(1, {done_ % other_.size(1), done_ % other_.size(1) + x.size(1)}));
    done_ += x.size(1);
    return {all};
  }
  Tensor backward(std::span<const Tensor> d_y, Saved&) override {
    return d_y[0].slice(1, {0, d_y[0].size(1) / 2}).contiguous();
  }
  std::vector<Parameter*> parameters() override { return {}; }

 private:
  Tensor other_;
  std::size_t done_ = 0;
};

TEST_F(ChunkedHeadTest, OfPartsOfSequencesEachTokenHasItsTarget) {
  const Tensor x = random.tensor(device, {2, 5, 9}, DType::kF64);
  const Tensor other = random.tensor(device, x.shape(), DType::kF64);
  const Tensor targets = random.tokens(device, {2, 10}, 9);
  const auto loss_by = [&](std::size_t pieces, Tensor& d_x) {
    OfTwoRanks head(other);
    const auto loss = factory.loss({.config = config,
                                    .device = device,
                                    .precision = DType::kF64,
                                    .seed = seed,
                                    .rope = nullptr,
                                    .factory = factory});
    const ChunkedHead chunked(pieces, head, *loss);
    Saved saved;
    const double sum = chunked.forward(x, targets, 20.0, saved);
    d_x = chunked.backward(saved);
    return sum;
  };
  Tensor whole;
  Tensor found;
  const double expected = loss_by(1, whole);
  EXPECT_NEAR(loss_by(3, found), expected, 1e-13 * expected);
  EXPECT_TRUE(test::all_near(found, whole, 1e-14));
}

TEST_F(ChunkedHeadTest, MorePiecesThanTokensAreRefused) {
  config.max_seq_len = 3;
  const test::MicroBatch batch = test::random_micro_batch(random, device, config, 1, 3);
  EXPECT_THAT(test::message_of<ConfigError>([&] { static_cast<void>(step(4, batch)); }),
              ::testing::AllOf(::testing::HasSubstr("--head-chunks 4"),
                               ::testing::HasSubstr("Choose at most 3")));
}

}  // namespace
}  // namespace ultra::nn
