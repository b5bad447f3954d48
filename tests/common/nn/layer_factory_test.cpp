// Factories that wrap factories, as the chapters on parallelism do.
#include "common/nn/layer_factory.hpp"

#include <map>

#include "common/nn/layers/linear.hpp"
#include "common/ops/elementwise.hpp"
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

/// The outputs of two halves of each map's rows, side by side: tensor parallelism in one process.
class TwoShards : public Projections {
 public:
  TwoShards(const BuildContext& context, const std::vector<LinearSpec>& specs)
      : first_(half(specs, 0), context.device, context.precision, context.seed),
        second_(half(specs, 1), context.device, context.precision, context.seed) {}

  std::vector<Tensor> forward(const Tensor& x, Saved& saved) override {
    const std::vector<Tensor> a = first_.forward(x, saved.child("first"));
    const std::vector<Tensor> b = second_.forward(x, saved.child("second"));
    std::vector<Tensor> joined;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t cut = a[i].size(-1);
      const std::size_t width = cut + b[i].size(-1);
      joined.push_back(Tensor::empty(x.device(), x.shape().with(-1, width), x.dtype()));
      joined[i].slice(-1, {0, cut}).copy_from(a[i]);
      joined[i].slice(-1, {cut, width}).copy_from(b[i]);
    }
    return joined;
  }

  Tensor backward(std::span<const Tensor> d_y, Saved& saved) override {
    std::vector<Tensor> d_a;
    std::vector<Tensor> d_b;
    for (const Tensor& d : d_y) {
      const std::size_t width = d.size(-1);
      d_a.push_back(d.slice(-1, {0, width / 2}).contiguous());
      d_b.push_back(d.slice(-1, {width / 2, width}).contiguous());
    }
    const Tensor d_x = first_.backward(d_a, saved.child("first"));
    ops::add_into(d_x, second_.backward(d_b, saved.child("second")));
    return d_x;
  }

  std::vector<Parameter*> parameters() override {
    std::vector<Parameter*> all = first_.parameters();
    for (Parameter* p : second_.parameters()) all.push_back(p);
    return all;
  }

 private:
  static std::vector<ParameterSpec> half(const std::vector<LinearSpec>& specs, int which) {
    std::vector<ParameterSpec> halves;
    for (const LinearSpec& spec : specs) {
      const std::size_t cut = spec.out_features / 2;
      halves.push_back(weight_spec(spec));
      halves.back().shard = {which == 0 ? Range{0, cut} : Range{cut, spec.out_features},
                             {0, spec.in_features}};
    }
    return halves;
  }

  DenseProjections first_;
  DenseProjections second_;
};

class SplitColumnsFactory : public FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;
  std::unique_ptr<Projections> column_linear(const BuildContext& context,
                                             const std::vector<LinearSpec>& specs) override {
    return std::make_unique<TwoShards>(context, specs);
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

TEST_F(LayerFactoryTest, AWrapperAroundAWrapperSeesTheRequestsOfTheInnersParts) {
  NormFreeFactory inner(dense);
  CountingFactory outer(inner);
  const Model model(config, device, DType::kF32, seed, outer);
  EXPECT_EQ(outer.count["norm"], 2 * config.num_layers + 1);
  EXPECT_EQ(outer.count["row"], 2 * config.num_layers);
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

TEST_F(LayerFactoryTest, SplitColumnsEqualTheDenseModel) {
  CountingFactory counting(dense);
  SplitColumnsFactory split(counting);
  Model whole(config, device, DType::kF64, seed, dense);
  Model parts(config, device, DType::kF64, seed, split);
  EXPECT_EQ(parts.parameter_count(), whole.parameter_count());
  const std::size_t seq = random.between(1, config.max_seq_len);
  const test::MicroBatch batch = test::random_micro_batch(random, device, config, 2, seq);
  const double tokens = test::count_of(batch.tokens.numel());
  const double roundings = 2 * test::model_roundings(config, seq);
  const double loss = test::run_step(whole, batch, tokens);
  EXPECT_NEAR(test::run_step(parts, batch, tokens), loss,
              test::rounding_bound(DType::kF64, roundings, loss));

  std::map<std::string, const Parameter*> dense_by_name;
  for (const Parameter* p : whole.parameters()) dense_by_name[p->name()] = p;
  // A gradient sums over the tokens too.
  const double magnitude = tokens * test::largest_gradient(whole);
  for (const Parameter* p : parts.parameters()) {
    const Tensor& expected = dense_by_name.at(p->name())->grad();
    Tensor part = expected;
    for (std::size_t d = 0; d < p->shard().size(); ++d) {
      part = part.slice(static_cast<int>(d), p->shard()[d]);
    }
    EXPECT_TRUE(test::all_near(p->grad(), part.contiguous(),
                               test::rounding_bound(DType::kF64, 2 * roundings, magnitude)))
        << p->name();
  }
}

}  // namespace
}  // namespace ultra::nn
