// A mixture of experts on one rank: its outputs and its terms of the loss against a loop over
// tokens, its gradients against finite differences.
//
// Covers: chapters/08_expert_parallel/moe_layer.hpp
// Covers: chapters/08_expert_parallel/moe/router.hpp
// Covers: chapters/08_expert_parallel/moe/experts.hpp
// Covers: chapters/08_expert_parallel/moe/expert_linears.hpp

#include <map>

#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/08_expert_parallel/moe/moe_models.hpp"
#include "chapters/08_expert_parallel/moe_layer.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/chapters/08_expert_parallel/plain_moe.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::expert_parallel {
namespace {

using test::PlainMoe;
using test::PlainResult;
using ultra::test::Differentiated;
using ultra::test::gradients_match;

constexpr const char* kPrefix = "model.layers.0.block_sparse_moe";

/// A layer on one rank, and what it is fed with.
struct MoeCase {
  nn::ModelConfig model = {};
  MoeConfig moe = {};
  std::size_t batch = 1;
  DType dtype = DType::kF64;

  [[nodiscard]] std::string str() const {
    return fmt::format(
        "E {} k {} f {} shared {} router {} balance {} capacity {} h {} b {} s {} {}",
        moe.num_experts, moe.top_k, moe.expert_ffn, moe.shared_experts,
        static_cast<int>(moe.router), static_cast<int>(moe.balance),
        moe.capacity_factor.value_or(0), model.hidden_size, batch, model.max_seq_len,
        to_string(dtype));
  }
  [[nodiscard]] std::size_t sequences() const { return batch + 2; }  // the global batch has more
  [[nodiscard]] MoeScope scope(const Communicator& one, train::RankCounters* counters) const {
    return {.config = moe,
            .ep = one,
            .region = nullptr,
            .share = {.experts = {0, moe.num_experts}, .data_group = std::string(nn::kDataGroup)},
            .router = {.cp = one, .sequences = sequences(), .counters = counters}};
  }
};

/// A layer with random weights, one input and one gradient of its output.
class LayerOnOneRank {
 public:
  LayerOnOneRank(const MoeCase& c, const Communicator& one, ultra::test::Random& random,
                 const Device& device)
      : case_(c),
        context_{case_.model, device, c.dtype, 1, nullptr, factory_},
        layer_(context_, 0, case_.scope(one, &counters)) {
    for (nn::Parameter* parameter : layer_.parameters()) random.fill(parameter->value(), 0.5);
    const Shape shape{c.batch, c.model.max_seq_len, c.model.hidden_size};
    x = random.tensor(device, shape, c.dtype);
    d_y = random.tensor(device, shape, c.dtype);
  }

  /// Output of a pass, and the terms that it has added to the loss.
  std::pair<Tensor, double> forward(nn::Saved::Mode mode = nn::Saved::Mode::kDiscard) {
    double terms = 0;
    saved = nn::Saved(mode, {.loss_terms = &terms});
    const Tensor y = layer_.forward(x, saved);
    return {y, terms};
  }
  Tensor backward() { return layer_.backward(d_y, saved); }

  [[nodiscard]] PlainResult plain() {
    const PlainMoe plain(test::plain_weights(layer_.parameters(), kPrefix), case_.moe,
                         case_.model.hidden_size, case_.model.max_seq_len, case_.sequences());
    return plain(x.to_vector());
  }
  /// What the gradients are of: a sum over the output, and the terms.
  double objective() {
    const auto [y, terms] = forward();
    return ultra::test::inner_product(y, d_y) + terms;
  }
  [[nodiscard]] std::vector<nn::Parameter*> parameters() { return layer_.parameters(); }

  Tensor x, d_y;
  nn::Saved saved;
  train::RankCounters counters;

 private:
  MoeCase case_;
  nn::DenseFactory factory_;
  nn::BuildContext context_;
  MoeLayer layer_;
};

class MoeLayerTest : public ultra::test::RandomTest {
 protected:
  MoeCase draw(DType dtype) {
    MoeCase c{.dtype = dtype};
    c.model.hidden_size = random.between(2, 6);
    c.model.max_seq_len = random.between(2, 6);
    c.batch = random.between(1, 3);
    c.moe.num_experts = random.between(1, 6);
    c.moe.top_k = random.between(1, c.moe.num_experts);
    c.moe.expert_ffn = random.between(1, 5);
    c.moe.shared_experts = random.pick({0U, 0U, 1U, 2U});
    c.moe.router = random.pick({RouterKind::kSoftmax, RouterKind::kSigmoid});
    c.moe.balance = random.pick({Balance::kAux, Balance::kAux, Balance::kBias, Balance::kNone});
    c.moe.aux_coefficient = 0.7;
    c.moe.z_coefficient = random.pick({0.0, 0.3});
    if (random.pick({false, true})) c.moe.capacity_factor = random.uniform(0.2, 1.5);
    c.moe.capacity_group = random.pick({CapacityGroup::kSequence, CapacityGroup::kMicroBatch});
    return c;
  }

  void on_one_rank(const MoeCase& c, const std::function<void(LayerOnOneRank&)>& fn) {
    SCOPED_TRACE(c.str());
    run_ranks(1, [&](Communicator& one) {
      LayerOnOneRank layer(c, one, random, device);
      fn(layer);
    });
  }
};

TEST_F(MoeLayerTest, OutputsAndTermsAreThoseOfALoopOverTokens) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    for (int round = 0; round < 40; ++round) {
      on_one_rank(draw(dtype), [&](LayerOnOneRank& layer) {
        const auto [y, terms] = layer.forward();
        const PlainResult plain = layer.plain();
        if (plain.margin < 1e-5) return;  // a choice may differ by rounding
        const double size = std::max(1.0, ultra::test::largest_magnitude(plain.y));
        const double tolerance = ultra::test::rounding_bound(dtype, 400, size);
        EXPECT_TRUE(all_near(y, plain.y, tolerance));
        EXPECT_NEAR(terms, plain.terms, ultra::test::rounding_bound(dtype, 400, 1 + plain.terms));
        for (std::size_t e = 0; e < plain.choices.size(); ++e) {
          EXPECT_EQ(layer.counters.sums().at(load_counter(0, e)), plain.choices[e]);
        }
        EXPECT_EQ(layer.counters.sums().at(dropped_counter(0)), plain.dropped);
      });
    }
  }
}

TEST_F(MoeLayerTest, GradientsAreThoseOfFiniteDifferences) {
  int rounds = 0;
  while (rounds < 12) {
    MoeCase c = draw(DType::kF64);
    if (rounds % 2 == 0) {  // a balancing term, where there is a choice
      c.moe.num_experts = c.moe.top_k + 1;
      c.moe.balance = Balance::kAux;
    }
    on_one_rank(c, [&](LayerOnOneRank& layer) {
      if (layer.plain().margin < 0.03) return;  // a step of the differences could change a choice
      ++rounds;
      static_cast<void>(layer.forward(nn::Saved::Mode::kKeep));
      std::vector<Differentiated> at = {{"input", layer.x, layer.backward()}};
      EXPECT_TRUE(layer.saved.empty());
      for (const nn::Parameter* parameter : layer.parameters()) {
        if (parameter->may_be_idle()) continue;  // biases move choices only
        at.push_back({parameter->name(), parameter->value(), parameter->grad()});
      }
      EXPECT_TRUE(gradients_match(
          random, [&] { return layer.objective(); }, at, 8));
    });
  }
}

// The sums over the published checkpoints.
TEST(TrainableMoeModels, HaveThePublishedNumbersOfParameters) {
  const std::map<std::string, std::size_t> published = {{"mixtral-8x7b", 46'702'792'704},
                                                        {"qwen3-30b-a3b", 30'532'122'624}};
  EXPECT_EQ(trainable_moe_models().size(), published.size());
  run_ranks(1, [&](Communicator& one) {
    for (const auto& [dense, moe] : trainable_moe_models()) {
      nn::DenseFactory layers;
      ExpertParallelFactory factory(layers,
                                    MoeCase{.model = dense.config, .moe = moe}.scope(one, nullptr));
      std::size_t parameters = 0;
      for (const auto& [name, shape] : nn::named_shapes(dense.config, factory)) {
        parameters += shape.numel();
      }
      EXPECT_EQ(parameters, published.at(dense.name)) << dense.name;
    }
  });
}

}  // namespace
}  // namespace ultra::expert_parallel
