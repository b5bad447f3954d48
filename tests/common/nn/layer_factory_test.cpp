// Factories that wrap factories, as the chapters on parallelism do.
#include "common/nn/layer_factory.hpp"

#include <map>

#include "common/nn/layers/linear.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::nn {
namespace {

/// Counts every request and passes it on.
class CountingFactory : public FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;

  std::unique_ptr<Layer> norm(const BuildContext& c, const NormSpec& spec) override {
    ++count["norm"];
    return FactoryWrapper::norm(c, spec);
  }
  std::unique_ptr<Projections> column_linear(const BuildContext& c,
                                             const std::vector<LinearSpec>& specs) override {
    ++count["column"];
    return FactoryWrapper::column_linear(c, specs);
  }
  std::unique_ptr<Layer> row_linear(const BuildContext& c, const LinearSpec& spec) override {
    ++count["row"];
    return FactoryWrapper::row_linear(c, spec);
  }
  std::unique_ptr<Projections> token_linear(const BuildContext& c,
                                            const std::vector<LinearSpec>& specs) override {
    ++count["token"];
    return FactoryWrapper::token_linear(c, specs);
  }
  std::unique_ptr<Layer> shared_by_heads(const BuildContext& c) override {
    ++count["shared"];
    return FactoryWrapper::shared_by_heads(c);
  }
  std::unique_ptr<AttentionCore> attention_core(const BuildContext& c) override {
    ++count["core"];
    return FactoryWrapper::attention_core(c);
  }
  std::unique_ptr<Layer> feed_forward(const BuildContext& c, std::size_t layer) override {
    ++count["feed_forward"];
    return FactoryWrapper::feed_forward(c, layer);
  }
  std::unique_ptr<Layer> block(const BuildContext& c, std::size_t layer) override {
    ++count["block"];
    return FactoryWrapper::block(c, layer);
  }
  std::unique_ptr<Layer> stack(const BuildContext& c,
                               std::vector<std::unique_ptr<Layer>> blocks) override {
    ++count["stack"];
    return FactoryWrapper::stack(c, std::move(blocks));
  }
  std::unique_ptr<TokenEmbedding> embedding(const BuildContext& c) override {
    ++count["embedding"];
    return FactoryWrapper::embedding(c);
  }
  std::unique_ptr<LossLayer> loss(const BuildContext& c) override {
    ++count["loss"];
    return FactoryWrapper::loss(c);
  }

  std::map<std::string, std::size_t> count;
};

/// A layer that does nothing, in place of a norm.
class Identity : public Layer {
 public:
  Tensor forward(const Tensor& x, Saved&) override { return x.clone(); }
  Tensor backward(const Tensor& d_y, Saved&) override { return d_y.clone(); }
};

class NormFreeFactory : public FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;
  std::unique_ptr<Layer> norm(const BuildContext&, const NormSpec&) override {
    return std::make_unique<Identity>();
  }
};

class LayerFactoryTest : public test::RandomTest {
 protected:
  ModelConfig config = test::random_model_config(random);
  DenseFactory dense;
};

TEST_F(LayerFactoryTest, AWrapperSeesEveryRequest) {
  CountingFactory counting(dense);
  const Model model(config, device, DType::kF32, seed, counting);
  const std::size_t layers = config.num_layers;
  const std::map<std::string, std::size_t> expected = {{"norm", 2 * layers + 1},
                                                       {"column", 2 * layers + 1},
                                                       {"row", 2 * layers},
                                                       {"core", layers},
                                                       {"feed_forward", layers},
                                                       {"block", layers},
                                                       {"stack", 1},
                                                       {"embedding", 1},
                                                       {"loss", 1}};
  EXPECT_EQ(counting.count, expected);
}

TEST_F(LayerFactoryTest, TheOuterWrapperAnswersAndTheInnerSeesWhatIsPassedOn) {
  CountingFactory inner(dense);
  NormFreeFactory outer(inner);
  const Model model(config, device, DType::kF32, seed, outer);
  EXPECT_EQ(inner.count.count("norm"), 0U);
  EXPECT_EQ(inner.count["row"], 2 * config.num_layers);
  for (const Parameter* p : model.parameters()) {
    EXPECT_EQ(p->name().find("norm"), std::string::npos) << p->name();
  }
}

TEST_F(LayerFactoryTest, WithLatentsEveryWrapperSeesMapsOfTokensAndWhatHeadsShare) {
  config.num_kv_heads = config.num_heads;
  config.latent.on = true;
  CountingFactory inner(dense);
  CountingFactory outer(static_cast<LayerFactory&>(inner));  // around it, not a copy
  const Model model(config, device, DType::kF32, seed, outer);
  for (CountingFactory* factory : {&inner, &outer}) {
    EXPECT_EQ(factory->count["token"], config.num_layers);
    EXPECT_EQ(factory->count["shared"], config.num_layers);
    EXPECT_EQ(factory->count["core"], config.num_layers);
    EXPECT_EQ(factory->count["norm"], 4 * config.num_layers + 1) << "two more on latents";
  }
}

}  // namespace
}  // namespace ultra::nn
