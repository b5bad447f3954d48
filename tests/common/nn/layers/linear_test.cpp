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
