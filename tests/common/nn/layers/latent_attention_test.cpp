// Covers: common/nn/layers/latent_heads.hpp

#include "common/nn/layers/latent_attention.hpp"

#include <map>

#include "common/nn/layers/attention_layer.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

class LatentAttentionTest : public LayerTest {
 protected:
  LatentAttentionTest() { draw(); }

  /// Small widths, with a latent of queries or without. A latent of one or two elements is often near
  /// zero, where its norm bends within sqrt(norm_epsilon): that is kept far above the steps of a finite
  /// difference.
  void draw() {
    config.norm_epsilon = 0.1;
    config.num_kv_heads = config.num_heads;
    config.latent = {.on = true,
                     .kv_lora_rank = 2 * random.between(1, 4),
                     .q_lora_rank = random.between(0, 3),
                     .qk_nope_head_dim = 2 * random.between(1, 3),
                     .qk_rope_head_dim = 2 * random.between(1, 2),
                     .v_head_dim = random.between(1, 4)};
    config.validate();
  }

  /// The absorbed form of the same model.
  void absorb() { config.latent.absorbed = true; }
};

TEST_F(LatentAttentionTest, GradientsMatchFiniteDifferences) {
  for (int i = 0; i < 3; ++i) {
    draw();
    LatentSelfAttention plain(context(), 0);
    check_layer(plain, hidden_states());
    absorb();
    LatentSelfAttention absorbed(context(), 0);
    check_layer(absorbed, hidden_states());
  }
}

TEST_F(LatentAttentionTest, OwnsWhatThePaperNames) {
  config.num_heads = config.num_kv_heads = 3;
  config.hidden_size = 10;
  config.latent = {.on = true,
                   .kv_lora_rank = 8,
                   .q_lora_rank = 5,
                   .qk_nope_head_dim = 6,
                   .qk_rope_head_dim = 4,
                   .v_head_dim = 7};
  const auto shapes = [&] {
    LatentSelfAttention layer(context(), 2);
    std::map<std::string, Shape> found;
    for (const Parameter* p : layer.parameters()) {
      found.emplace(p->name().substr(std::string("model.layers.2.self_attn.").size()), p->shape());
    }
    return found;
  };
  std::map<std::string, Shape> expected = {
      {"q_a_proj.weight", {5, 10}},          {"q_a_layernorm.weight", {5}},
      {"q_b_proj.weight", {3 * (6 + 4), 5}}, {"kv_a_proj_with_mqa.weight", {8 + 4, 10}},
      {"kv_a_layernorm.weight", {8}},        {"kv_b_proj.weight", {3 * (6 + 7), 8}},
      {"o_proj.weight", {10, 3 * 7}}};
  EXPECT_EQ(shapes(), expected);
  absorb();
  EXPECT_EQ(shapes(), expected);
  config.latent.q_lora_rank = 0;
  for (const char* gone : {"q_a_proj.weight", "q_a_layernorm.weight", "q_b_proj.weight"}) {
    expected.erase(gone);
  }
  expected.insert({"q_proj.weight", {3 * (6 + 4), 10}});
  EXPECT_EQ(shapes(), expected);
}

// The sum over a block's self_attn of transformers' DeepseekV3ForCausalLM by its default configuration.
TEST_F(LatentAttentionTest, OfDeepseekV3HasThePublishedNumberOfParameters) {
  config = {.hidden_size = 7168, .num_layers = 1, .num_heads = 128, .num_kv_heads = 128};
  config.latent = {.on = true,
                   .kv_lora_rank = 512,
                   .q_lora_rank = 1536,
                   .qk_nope_head_dim = 128,
                   .qk_rope_head_dim = 64,
                   .v_head_dim = 128};
  std::size_t parameters = 0;
  for (const auto& [name, shape] : named_shapes(config, factory)) {
    if (name.find("self_attn") != std::string::npos) parameters += shape.numel();
  }
  EXPECT_EQ(parameters, 187'107'328U);
}

// A core's rows have kv_lora_rank + qk_rope_head_dim elements in the absorbed form, for one head of keys
// that is the value too; and as many keys as queries in the plain one.
TEST_F(LatentAttentionTest, TheCoreOfTheAbsorbedFormKeepsOneLatentForAllHeads) {
  const Tensor x = hidden_states();
  const std::size_t tokens = x.size(0) * x.size(1);
  LatentSelfAttention plain(context(), 0);
  Saved kept;
  static_cast<void>(plain.forward(x, kept));
  EXPECT_EQ(kept.child("core").get("key").numel(),
            tokens * config.num_heads * config.latent.qk_head_dim());
  absorb();
  LatentSelfAttention absorbed(context(), 0);
  Saved fewer;
  static_cast<void>(absorbed.forward(x, fewer));
  const Tensor& key = fewer.child("core").get("key");
  EXPECT_EQ(key.numel(), tokens * config.latent.cached());
  EXPECT_TRUE(key.shares_storage(fewer.child("core").get("value")));
}

// One definition apart from the layer's: equations of section 2.1, token by token, in doubles.
class Reference {
 public:
  Reference(const ModelConfig& config, const std::map<std::string, std::vector<double>>& weights)
      : c_(config), w_(weights) {}

  [[nodiscard]] std::vector<std::vector<double>> outputs(
      const std::vector<std::vector<double>>& x) const {
    const LatentAttention& l = c_.latent;
    std::vector<std::vector<double>> latents;
    std::vector<std::vector<double>> turned;
    std::vector<std::vector<double>> queries;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const auto down = times("kv_a_proj_with_mqa", x[t]);
      latents.push_back(normed({down.begin(), down.begin() + std::ptrdiff_t(l.kv_lora_rank)}));
      turned.push_back(
          rotated({down.begin() + std::ptrdiff_t(l.kv_lora_rank), down.end()}, double(t)));
      queries.push_back(l.q_lora_rank > 0 ? times("q_b_proj", normed(times("q_a_proj", x[t])))
                                          : times("q_proj", x[t]));
    }
    std::vector<std::vector<double>> outputs;
    for (std::size_t t = 0; t < x.size(); ++t) {
      std::vector<double> heads;
      for (std::size_t h = 0; h < c_.num_heads; ++h) {
        const auto o = head(queries[t], latents, turned, t, h);
        heads.insert(heads.end(), o.begin(), o.end());
      }
      outputs.push_back(times("o_proj", heads));
    }
    return outputs;
  }

 private:
  using Vector = std::vector<double>;

  [[nodiscard]] Vector head(const Vector& queries, const std::vector<Vector>& latents,
                            const std::vector<Vector>& turned, std::size_t t, std::size_t h) const {
    const LatentAttention& l = c_.latent;
    const auto q = queries.begin() + std::ptrdiff_t(h * l.qk_head_dim());
    const Vector nope(q, q + std::ptrdiff_t(l.qk_nope_head_dim));
    const Vector rope = rotated(
        {q + std::ptrdiff_t(l.qk_nope_head_dim), q + std::ptrdiff_t(l.qk_head_dim())}, double(t));
    const std::size_t width = l.qk_nope_head_dim + l.v_head_dim;
    Vector sum(l.v_head_dim, 0.0);
    double weights = 0;
    for (std::size_t j = 0; j <= t; ++j) {
      const Vector made = times("kv_b_proj", latents[j]);
      const auto own = made.begin() + std::ptrdiff_t(h * width);
      double score = 0;
      for (std::size_t i = 0; i < nope.size(); ++i) score += nope[i] * own[std::ptrdiff_t(i)];
      for (std::size_t i = 0; i < rope.size(); ++i) score += rope[i] * turned[j][i];
      const double weight = std::exp(score / std::sqrt(double(l.qk_head_dim())));
      weights += weight;
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += weight * own[std::ptrdiff_t(l.qk_nope_head_dim + i)];
      }
    }
    for (double& each : sum) each /= weights;
    return sum;
  }

  [[nodiscard]] Vector times(const std::string& name, const Vector& x) const {
    const Vector& w = w_.at(name);
    Vector y(w.size() / x.size(), 0.0);
    for (std::size_t i = 0; i < w.size(); ++i) y[i / x.size()] += w[i] * x[i % x.size()];
    return y;
  }

  /// Weights of norms are 1 here.
  [[nodiscard]] Vector normed(Vector x) const {
    double squares = 0;
    for (const double each : x) squares += each * each;
    for (double& each : x) each /= std::sqrt(squares / double(x.size()) + c_.norm_epsilon);
    return x;
  }

  [[nodiscard]] Vector rotated(Vector x, double position) const {
    const std::size_t half = x.size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = position * std::pow(c_.rope_theta, -2.0 * double(i) / double(x.size()));
      const double first = x[i];
      x[i] = first * std::cos(angle) - x[i + half] * std::sin(angle);
      x[i + half] = x[i + half] * std::cos(angle) + first * std::sin(angle);
    }
    return x;
  }

  const ModelConfig& c_;
  std::map<std::string, std::vector<double>> w_;
};

TEST_F(LatentAttentionTest, ComputesThePapersEquations) {
  for (const bool absorbed : {false, true}) {
    draw();
    config.latent.absorbed = absorbed;
    LatentSelfAttention layer(context(), 0);
    std::map<std::string, std::vector<double>> weights;
    for (Parameter* p : layer.parameters()) {
      if (p->shape().rank() == 1) continue;
      random.fill(p->value(), 0.4);
      const std::string name = p->name().substr(std::string("model.layers.0.self_attn.").size());
      weights.emplace(name.substr(0, name.find('.')), p->value().to_vector());
    }
    const std::size_t seq = config.max_seq_len;
    const Tensor x = random.tensor(device, {1, seq, config.hidden_size}, DType::kF64);
    std::vector<std::vector<double>> tokens;
    for (std::size_t t = 0; t < seq; ++t) tokens.push_back(x.slice(1, {t, t + 1}).to_vector());
    std::vector<double> expected;
    for (const auto& y : Reference(config, weights).outputs(tokens)) {
      expected.insert(expected.end(), y.begin(), y.end());
    }
    Saved discard(Saved::Mode::kDiscard);
    EXPECT_TRUE(test::all_near(layer.forward(x, discard), expected, 1e-12));
  }
}

}  // namespace
}  // namespace ultra::nn
