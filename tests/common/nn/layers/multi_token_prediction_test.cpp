// The token after next: which token predicts which, against a model that is written out by hand here;
// gradients against finite differences; a table that two stages hold.
//
// Covers: common/nn/layers/side_by_side.hpp
// Covers: common/nn/model.hpp
#include "common/nn/layers/multi_token_prediction.hpp"

#include <map>
#include <tuple>

#include "common/nn/layers/side_by_side.hpp"
#include "common/nn/model.hpp"
#include "common/ops/elementwise.hpp"
#include "common/train/token_plan.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::nn {
namespace {

using Row = std::vector<double>;

/// A model in plain loops over plain numbers: one document at a time, one token at a time.
class ModelByHand {
 public:
  explicit ModelByHand(const Model& model) : config_(model.config()) {
    for (const Parameter* p : model.parameters()) weights_[p->name()] = p->value().to_vector();
  }

  /// Sum of the losses of the tokens after next.
  /// @param text    one token more than the sequence has: what its last token predicts.
  /// @param begins  where each token's document begins.
  double loss_after_next(const std::vector<std::size_t>& text,
                         const std::vector<std::size_t>& begins) const {
    const std::size_t seq = begins.size();
    double loss = 0;
    for (std::size_t begin = 0, end = 0; begin < seq; begin = end) {
      while (end < seq && begins[end] == begin) ++end;
      std::vector<Row> states;
      for (std::size_t i = begin; i < end; ++i) states.push_back(vector_of(text[i]));
      for (std::size_t layer = 0; layer < config_.num_layers; ++layer) {
        states = block(layer, states, begin);
      }
      std::vector<Row> further;
      for (std::size_t i = begin; i < end; ++i) {
        Row both = norm(module("enorm"), vector_of(i + 1 < end ? text[i + 1] : 0));
        const Row h = norm(module("hnorm"), norm("model.norm.weight", states[i - begin]));
        both.insert(both.end(), h.begin(), h.end());
        further.push_back(times(module("eh_proj"), both));
      }
      further = block(config_.num_layers, further, begin);
      // The sequence's text goes on behind its end by one token; a document's does not.
      const std::size_t known = end == seq ? end + 1 : end;
      for (std::size_t i = begin; i + 1 < end && i + 2 < known; ++i) {
        const Row logits = times(head(), norm(module("shared_head.norm"), further[i - begin]));
        double sum = 0;
        for (const double logit : logits) sum += std::exp(logit);
        loss += std::log(sum) - logits[text[i + 2]];
      }
    }
    return loss;
  }

 private:
  std::string module(const std::string& which) const {
    return "model.layers." + std::to_string(config_.num_layers) + "." + which + ".weight";
  }
  std::string head() const {
    return config_.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  }

  Row vector_of(std::size_t token) const {
    const Row& table = weights_.at("model.embed_tokens.weight");
    const auto at = table.begin() + static_cast<std::ptrdiff_t>(token * config_.hidden_size);
    return {at, at + static_cast<std::ptrdiff_t>(config_.hidden_size)};
  }

  Row norm(const std::string& name, Row x) const {
    const Row& weight = weights_.at(name);
    double squares = 0;
    for (const double each : x) squares += each * each;
    const double rms = std::sqrt(squares / test::count_of(x.size()) + config_.norm_epsilon);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= weight[i] / rms;
    return x;
  }

  Row times(const std::string& name, const Row& x) const {
    const Row& matrix = weights_.at(name);
    Row y(matrix.size() / x.size(), 0.0);
    for (std::size_t i = 0; i < y.size(); ++i) {
      for (std::size_t j = 0; j < x.size(); ++j) y[i] += matrix[i * x.size() + j] * x[j];
    }
    return y;
  }

  void rotate(Row& heads, std::size_t position) const {
    const std::size_t width = config_.head_dim();
    for (std::size_t begin = 0; begin < heads.size(); begin += width) {
      for (std::size_t i = 0; i < width / 2; ++i) {
        const double angle =
            test::count_of(position) *
            std::pow(config_.rope_theta, -2.0 * test::count_of(i) / test::count_of(width));
        double& a = heads[begin + i];
        double& b = heads[begin + i + width / 2];
        std::tie(a, b) = std::pair(a * std::cos(angle) - b * std::sin(angle),
                                   b * std::cos(angle) + a * std::sin(angle));
      }
    }
  }

  Row attend(const Row& query, const std::vector<Row>& keys, const std::vector<Row>& values) const {
    const std::size_t width = config_.head_dim();
    Row output(query.size(), 0.0);
    for (std::size_t head = 0; head < config_.num_heads; ++head) {
      const std::size_t kv = head / (config_.num_heads / config_.num_kv_heads);
      Row weights;
      double sum = 0;
      for (const Row& key : keys) {
        double score = 0;
        for (std::size_t i = 0; i < width; ++i)
          score += query[head * width + i] * key[kv * width + i];
        weights.push_back(std::exp(score / std::sqrt(test::count_of(width))));
        sum += weights.back();
      }
      for (std::size_t j = 0; j < keys.size(); ++j) {
        for (std::size_t i = 0; i < width; ++i) {
          output[head * width + i] += weights[j] / sum * values[j][kv * width + i];
        }
      }
    }
    return output;
  }

  std::vector<Row> block(std::size_t layer, std::vector<Row> states, std::size_t first) const {
    const auto name = [&](const char* which) {
      return "model.layers." + std::to_string(layer) + "." + which + ".weight";
    };
    std::vector<Row> keys;
    std::vector<Row> values;
    for (std::size_t i = 0; i < states.size(); ++i) {
      const Row x = norm(name("input_layernorm"), states[i]);
      Row query = times(name("self_attn.q_proj"), x);
      keys.push_back(times(name("self_attn.k_proj"), x));
      values.push_back(times(name("self_attn.v_proj"), x));
      rotate(query, first + i);
      rotate(keys.back(), first + i);
      add(states[i], times(name("self_attn.o_proj"), attend(query, keys, values)));
      const Row y = norm(name("post_attention_layernorm"), states[i]);
      Row product = times(name("mlp.gate_proj"), y);
      const Row up = times(name("mlp.up_proj"), y);
      for (std::size_t j = 0; j < up.size(); ++j) {
        product[j] *= up[j] / (1 + std::exp(-product[j]));
      }
      add(states[i], times(name("mlp.down_proj"), product));
    }
    return states;
  }

  static void add(Row& sum, const Row& term) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
  }

  ModelConfig config_;
  std::map<std::string, Row> weights_;
};

/// A micro-batch with the tokens behind it.
struct LongerBatch {
  data::Batch batch;
  std::shared_ptr<TokenPlaces> places;           // null: each sequence is one document
  std::vector<std::vector<std::size_t>> text;    // of each sequence, one token more
  std::vector<std::vector<std::size_t>> begins;  // of the documents
};

class MultiTokenPredictionTest : public test::RandomTest {
 protected:
  [[nodiscard]] Model make(const StageSpec& stage) {
    return {config, device, DType::kF64, seed, factory, stage};
  }
  [[nodiscard]] Model whole() { return make(StageSpec::whole(config)); }

  [[nodiscard]] LongerBatch draw_batch(bool documents) {
    const std::size_t sequences = random.between(1, 3);
    const std::size_t seq = random.between(1, config.max_seq_len);
    LongerBatch drawn;
    if (documents) drawn.places = std::make_shared<TokenPlaces>(TokenPlaces{.sequence_len = seq});
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> targets;
    for (std::size_t s = 0; s < sequences; ++s) {
      std::vector<std::size_t> text;
      for (std::size_t i = 0; i <= seq; ++i)
        text.push_back(random.between(0, config.vocab_size - 1));
      std::vector<std::size_t> begins(seq, 0);
      for (std::size_t i = 1; i < seq; ++i) {
        begins[i] = documents && random.between(0, 3) == 0 ? i : begins[i - 1];
      }
      for (std::size_t i = 0; i < seq; ++i) {
        tokens.push_back(static_cast<std::int32_t>(text[i]));
        targets.push_back(static_cast<std::int32_t>(text[i + 1]));
        if (documents) {
          drawn.places->document_begins.push_back(static_cast<std::int32_t>(begins[i]));
        }
      }
      drawn.text.push_back(std::move(text));
      drawn.begins.push_back(std::move(begins));
    }
    drawn.batch = {.tokens = Tensor::from<std::int32_t>(device, {sequences, seq}, tokens),
                   .targets = Tensor::from<std::int32_t>(device, {sequences, seq}, targets)};
    return drawn;
  }

  /// What a training says of the micro-batch.
  Pass pass_of(const LongerBatch& drawn) {
    const data::Batch next = train::TokenPlan::next_of(drawn.batch, drawn.places.get());
    Pass pass{.places = drawn.places};
    pass.next = std::make_shared<const NextTokens>(NextTokens{
        .tokens = next.tokens, .targets = next.targets, .weight = weight, .loss = &further});
    return pass;
  }

  /// The loss of the next tokens; that of the tokens after next is in `further`.
  double forward(Model& model, const LongerBatch& drawn, Saved& saved) {
    further = 0;
    return model.loss(model.forward(drawn.batch.tokens, saved), drawn.batch.targets, normalizer,
                      saved);
  }

  ModelConfig config = [this] {
    ModelConfig drawn = test::random_model_config(random);
    drawn.mtp = true;
    drawn.norm_epsilon = 0.1;
    drawn.tied_embeddings = random.between(0, 1) == 1;
    return drawn;
  }();
  DenseFactory factory;
  double weight = random.uniform(0.1, 2.0);
  double normalizer = random.uniform(3.0, 30.0);
  double further = 0;
};

TEST_F(MultiTokenPredictionTest, WeightsHaveTheNamesOfThePublishedCheckpoint) {
  config.num_layers = 2;
  config.tied_embeddings = false;
  const Model model = whole();
  const auto& all = model.parameters();
  std::vector<std::string> names;
  for (auto at = all.end() - 15; at != all.end(); ++at) names.push_back((*at)->name());
  EXPECT_THAT(
      names, ElementsAre(
                 "model.norm.weight", "lm_head.weight", "model.layers.2.enorm.weight",
                 "model.layers.2.hnorm.weight", "model.layers.2.eh_proj.weight",
                 "model.layers.2.input_layernorm.weight", "model.layers.2.self_attn.q_proj.weight",
                 "model.layers.2.self_attn.k_proj.weight", "model.layers.2.self_attn.v_proj.weight",
                 "model.layers.2.self_attn.o_proj.weight",
                 "model.layers.2.post_attention_layernorm.weight",
                 "model.layers.2.mlp.gate_proj.weight", "model.layers.2.mlp.up_proj.weight",
                 "model.layers.2.mlp.down_proj.weight", "model.layers.2.shared_head.norm.weight"));
  const std::size_t h = config.hidden_size;
  const std::size_t block =
      2 * h + 2 * h * h + 2 * h * config.kv_hidden_size() + 3 * h * config.ffn_hidden_size;
  ModelConfig plain = config;
  plain.mtp = false;
  const Model without(plain, device, DType::kF64, seed, factory);
  EXPECT_EQ(model.parameter_count(), without.parameter_count() + block + 2 * h * h + 3 * h);
  EXPECT_TRUE(model.has_block(2));
  EXPECT_FALSE(without.has_block(2));
  EXPECT_EQ(model.block_parameters(2).size(), 13U);
}

TEST_F(MultiTokenPredictionTest, EqualsTheModelThatIsWrittenOutByHand) {
  for (int round = 0; round < 8; ++round) {
    config.num_layers = random.between(1, 2);
    config.tied_embeddings = random.between(0, 1) == 1;
    Model model = whole();
    test::randomize_weights(random, model);
    const LongerBatch drawn = draw_batch(round % 2 == 1);
    Saved saved(Saved::Mode::kKeep, pass_of(drawn));
    static_cast<void>(forward(model, drawn, saved));
    const ModelByHand by_hand(model);
    double expected = 0;
    for (std::size_t s = 0; s < drawn.text.size(); ++s) {
      expected += by_hand.loss_after_next(drawn.text[s], drawn.begins[s]);
    }
    expected *= weight / normalizer;
    EXPECT_NEAR(further, expected, 1e-11 * std::max(1.0, expected)) << "round " << round;
  }
}

TEST_F(MultiTokenPredictionTest, GradientsMatchFiniteDifferences) {
  for (const bool tied : {false, true}) {
    config.tied_embeddings = tied;
    Model model = whole();
    test::randomize_weights(random, model);
    const LongerBatch drawn = draw_batch(tied);
    const Pass pass = pass_of(drawn);
    Saved kept(Saved::Mode::kKeep, pass);
    static_cast<void>(forward(model, drawn, kept));
    model.backward(kept);
    EXPECT_TRUE(kept.empty());
    const auto objective = [&] {
      Saved saved(Saved::Mode::kKeep, pass);
      const double loss = forward(model, drawn, saved);
      return loss + further;
    };
    std::vector<test::Differentiated> at;
    for (Parameter* p : model.parameters()) at.push_back({p->name(), p->value(), p->grad()});
    EXPECT_TRUE(test::gradients_match(random, objective, at, 8));
  }
}

TEST_F(MultiTokenPredictionTest, TheLossOfTheNextTokensIsThatOfTheModelWithout) {
  Model model = whole();
  ModelConfig plain = config;
  plain.mtp = false;
  Model without(plain, device, DType::kF64, seed, factory);
  const LongerBatch drawn = draw_batch(false);
  Saved with_next(Saved::Mode::kKeep, pass_of(drawn));
  Saved with_none;
  Saved of_other;
  const double loss = forward(without, drawn, of_other);
  EXPECT_EQ(forward(model, drawn, with_next), loss);
  EXPECT_EQ(forward(model, drawn, with_none), loss) << "a validation";
  EXPECT_EQ(further, 0.0);
}

TEST_F(MultiTokenPredictionTest, TwoStagesHoldTheTableAndTheirGradientsAddUp) {
  config.num_layers = 2;
  for (const bool tied : {false, true}) {
    config.tied_embeddings = tied;
    Model model = whole();
    Model begin = make({.layers = {0, 1}, .has_head = false});
    Model end = make({.layers = {1, 2}, .has_embedding = false});
    std::vector<std::string> names;
    for (const ModelPart& part : end.parts()) names.push_back(part.name);
    EXPECT_THAT(names, ElementsAre("block 1", "token table", "head"));
    const Parameter& first = *begin.parameters().front();
    const Parameter& last = *end.parts()[1].parameters.front();
    EXPECT_EQ(last.name(), first.name());
    EXPECT_TRUE(test::all_equal(last.value(), first.value())) << "they start alike";
    EXPECT_EQ(model.uses(*model.parameters().front()), tied ? 4U : 2U);
    EXPECT_EQ(end.uses(last), tied ? 3U : 1U);
    for (const auto& [table, index] : {std::pair{&first, 0}, {&last, 1}}) {
      EXPECT_THAT(table->replications(),
                  ElementsAre(Replication{.group = std::string(kTiedGroup),
                                          .size = 2,
                                          .index = index,
                                          .gradients = CopyGradients::kPartial}));
    }

    const LongerBatch drawn = draw_batch(false);
    const Pass pass = pass_of(drawn);
    Saved saved(Saved::Mode::kKeep, pass);
    const double loss = forward(model, drawn, saved);
    const double expected_further = further;
    model.backward(saved);
    Saved saved_begin;
    Saved saved_end(Saved::Mode::kKeep, pass);
    further = 0;
    const Tensor logits = end.forward(begin.forward(drawn.batch.tokens, saved_begin), saved_end);
    EXPECT_EQ(end.loss(logits, drawn.batch.targets, normalizer, saved_end), loss);
    EXPECT_EQ(further, expected_further);
    begin.backward(end.backward(saved_end), saved_begin);
    const Tensor sum = first.grad().clone();
    ops::add_into(sum, last.grad());
    const double tokens = test::count_of(drawn.batch.tokens.numel());
    EXPECT_TRUE(test::all_near(
        sum, model.parameters().front()->grad(),
        test::rounding_bound(DType::kF64, 4 * tokens, tokens * test::largest_gradient(model))));
  }
}

}  // namespace
}  // namespace ultra::nn
