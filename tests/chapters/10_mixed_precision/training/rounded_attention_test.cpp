// Attention whose softmax is rounded after every operation: where counting stops in closed form, every
// number against f64 with the roundings written out, which without them is attention.
#include "chapters/10_mixed_precision/training/rounded_attention.hpp"

#include "chapters/10_mixed_precision/training/rounded_sums.hpp"
#include "common/nn/layers/attention_layer.hpp"
#include "common/ops/attention.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using Row = std::vector<double>;

/// RoundingTo to nearest, ties to even, by the digits of a type.
struct RoundingTo {
  DType dtype;
  int digits;          // of the significand
  int least_exponent;  // of the smallest number

  [[nodiscard]] double unit() const { return std::ldexp(1.0, -digits); }
  double operator()(double x) const {
    if (x == 0) return 0;
    int exponent = 0;
    static_cast<void>(std::frexp(x, &exponent));
    const int last = std::max(exponent - digits, least_exponent);
    return std::ldexp(std::nearbyint(std::ldexp(x, -last)), last);
  }
};

constexpr RoundingTo kBf16{DType::kBF16, 8, -133};
constexpr RoundingTo kF16{DType::kF16, 11, -24};

/// The exponential is that of f32, whose last bit is the library's.
double exponential(double x) { return static_cast<double>(std::exp(static_cast<float>(x))); }

Row expected_softmax(const RoundingTo& r, Row scores) {
  const double highest = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& each : scores) {
    each = r(exponential(r(each - highest)));
    sum = r(sum + each);
  }
  for (double& each : scores) each = r(each / sum);
  return scores;
}

Row expected_backward(const RoundingTo& r, const Row& weights, Row d_weights) {
  double sum = 0;
  for (std::size_t j = 0; j < weights.size(); ++j) sum = r(sum + r(weights[j] * d_weights[j]));
  for (std::size_t j = 0; j < weights.size(); ++j) {
    d_weights[j] = r(weights[j] * r(d_weights[j] - sum));
  }
  return d_weights;
}

Row softmax_of(const Row& scores, DType dtype) {
  std::vector<float> row(scores.begin(), scores.end());
  rounded_softmax(row, dtype);
  return {row.begin(), row.end()};
}

double sum_of(const Row& row) { return std::accumulate(row.begin(), row.end(), 0.0); }

/// Elements of a tensor [batch, seq, heads, head_dim].
class Elements {
 public:
  explicit Elements(const Tensor& tensor) : shape_(tensor.shape()), values_(tensor.to_vector()) {}
  explicit Elements(const Shape& shape) : shape_(shape), values_(shape.numel(), 0.0) {}

  double& at(std::size_t b, std::size_t t, std::size_t h, std::size_t i) {
    return values_[((b * shape_[1] + t) * shape_[2] + h) * shape_[3] + i];
  }
  [[nodiscard]] double dot(Elements& other, std::size_t b, std::size_t t, std::size_t h,
                           std::size_t other_t, std::size_t other_h) {
    double sum = 0;
    for (std::size_t i = 0; i < shape_[3]; ++i) {
      sum += at(b, t, h, i) * other.at(b, other_t, other_h, i);
    }
    return sum;
  }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const Row& values() const { return values_; }

 private:
  Shape shape_;
  Row values_;
};

/// Attention and its gradients in f64: rounding where the layer does, but not of the results.
struct Reference {
  Elements output;
  Elements d_query;
  Elements d_key;
  Elements d_value;

  Reference(const RoundingTo& r, const AttentionOperands& in, const Tensor& d_out)
      : output(in.query.shape()),
        d_query(in.query.shape()),
        d_key(in.key.shape()),
        d_value(in.key.shape()),
        query_(in.query),
        key_(in.key),
        value_(in.value),
        d_output_(d_out) {
    const Shape& shape = in.query.shape();
    for (std::size_t b = 0; b < shape[0]; ++b) {
      for (std::size_t h = 0; h < shape[2]; ++h) {
        for (std::size_t t = 0; t < shape[1]; ++t) {
          const std::size_t first =
              in.first_seen.empty() ? 0 : static_cast<std::size_t>(in.first_seen[b * shape[1] + t]);
          add(r, b, h, t, first);
        }
      }
    }
  }

 private:
  void add(const RoundingTo& r, std::size_t b, std::size_t h, std::size_t t, std::size_t first) {
    const std::size_t kv = h / (query_.shape()[2] / key_.shape()[2]);
    // Products with the scale are those of f32: their last bit decides how ties are broken.
    const float scale = 1 / std::sqrt(static_cast<float>(query_.shape()[3]));
    const auto scaled = [&](double x) {
      return r(static_cast<double>(static_cast<float>(x) * scale));
    };
    Row scores;
    Row d_weights;
    for (std::size_t j = first; j <= t; ++j) {
      scores.push_back(scaled(r(query_.dot(key_, b, t, h, j, kv))));
      d_weights.push_back(r(d_output_.dot(value_, b, t, h, j, kv)));
    }
    const Row weights = expected_softmax(r, scores);
    const Row d_scores = expected_backward(r, weights, d_weights);
    for (std::size_t j = first; j <= t; ++j) {
      const double weight = weights[j - first];
      const double d_score = scaled(d_scores[j - first]);
      for (std::size_t i = 0; i < query_.shape()[3]; ++i) {
        output.at(b, t, h, i) += weight * value_.at(b, j, kv, i);
        d_value.at(b, j, kv, i) += weight * d_output_.at(b, t, h, i);
        d_query.at(b, t, h, i) += d_score * key_.at(b, j, kv, i);
        d_key.at(b, j, kv, i) += d_score * query_.at(b, t, h, i);
      }
    }
  }

  Elements query_;
  Elements key_;
  Elements value_;
  Elements d_output_;
};

class RoundedAttentionTest : public ultra::test::RandomTest {
 protected:
  /// Of few digits: their products add up without rounding in f32.
  Tensor few_digits(const Shape& shape, DType dtype) {
    std::vector<float> values(shape.numel());
    for (float& each : values) each = static_cast<float>(random.between(0, 32)) / 8.0F - 2.0F;
    return cast(Tensor::from<float>(Device::cpu(), shape, values), dtype);
  }

  /// Inputs of a random small shape, with documents or without; `first_seen_` belongs to them.
  AttentionOperands draw(DType dtype) {
    const std::size_t batch = random.between(1, 2);
    const std::size_t seq = random.between(1, 8);
    const std::size_t kv_heads = random.between(1, 2);
    const std::size_t head_dim = random.pick({2U, 4U, 8U, 16U});
    const Shape keys{batch, seq, kv_heads, head_dim};
    first_seen_.clear();
    if (random.between(0, 1) == 1) {
      for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t t = 0, first = 0; t < seq; ++t) {
          if (random.between(0, 2) == 0) first = t;
          first_seen_.push_back(static_cast<std::int32_t>(first));
        }
      }
    }
    return {.query = few_digits({batch, seq, kv_heads * random.between(1, 3), head_dim}, dtype),
            .key = few_digits(keys, dtype),
            .value = few_digits(keys, dtype),
            .first_seen = first_seen_};
  }

  /// Near a sum of f64 that is rounded once: the sum in f32 may round to the other side.
  static void expect_rounded(const Tensor& found, const Elements& expected, const RoundingTo& r) {
    const Row values = found.to_vector();
    ASSERT_EQ(values.size(), expected.values().size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = expected.values()[i];
      EXPECT_NEAR(values[i], r(value), 2 * r.unit() * std::abs(value) + 0x1p-18) << "element " << i;
    }
  }

 private:
  std::vector<std::int32_t> first_seen_;
};

// Of n equal scores each exponential is 1. Their sum counts to 2^digits and stops: the weights of
// more positions are 2^-digits each, and add up to n / 2^digits instead of 1.
TEST_F(RoundedAttentionTest, TheSumOfExponentialsStopsGrowing) {
  for (const RoundingTo& r : {kBf16, kF16}) {
    const auto most = static_cast<std::size_t>(1) << static_cast<unsigned>(r.digits);
    for (const std::size_t n : {std::size_t{1}, most / 2, most, most + 1, 2 * most, 4 * most}) {
      const Row weights = softmax_of(Row(n, random.pick({0.0, 3.0, -1.5})), r.dtype);
      EXPECT_EQ(weights, Row(n, 1.0 / static_cast<double>(std::min(n, most))));
      EXPECT_EQ(sum_of(weights), std::max(1.0, static_cast<double>(n) / static_cast<double>(most)));
    }
  }
}

TEST_F(RoundedAttentionTest, AttentionIsThatOfF64WithTheRoundingsWrittenOut) {
  for (const RoundingTo& r : {kBf16, kF16, kBf16, kF16, kBf16, kF16}) {
    const AttentionOperands inputs = draw(r.dtype);
    const Tensor d_output = few_digits(inputs.query.shape(), r.dtype);
    const Reference expected(r, inputs, d_output);
    SCOPED_TRACE(inputs.query.shape().str() + " of " + inputs.key.shape().str());
    const Tensor output = Tensor::empty(Device::cpu(), inputs.query.shape(), r.dtype);
    rounded_attention_into(output, inputs);
    const nn::QkvGradients gradients = rounded_attention_backward(d_output, inputs);
    expect_rounded(output, expected.output, r);
    expect_rounded(gradients.d_query, expected.d_query, r);
    expect_rounded(gradients.d_key, expected.d_key, r);
    expect_rounded(gradients.d_value, expected.d_value, r);
  }
}

// Of unit vectors as keys and values, the output of a query is its weights, and its gradient those of its
// scores: no sum hides a bit.
TEST_F(RoundedAttentionTest, EveryWeightAndEveryGradientOfAScoreIsThatOfF64) {
  for (const RoundingTo& r : {kBf16, kF16}) {
    const std::size_t seq = random.between(2, 8);
    std::vector<float> unit(seq * 8, 0.0F);
    for (std::size_t t = 0; t < seq; ++t) unit[t * 8 + t] = 1.0F;
    const Tensor keys = cast(Tensor::from<float>(Device::cpu(), {1, seq, 1, 8}, unit), r.dtype);
    const AttentionOperands inputs{few_digits({1, seq, 2, 8}, r.dtype), keys, keys};
    const Tensor d_output = few_digits(inputs.query.shape(), r.dtype);
    const Reference expected(r, inputs, d_output);
    const Tensor output = Tensor::empty(Device::cpu(), inputs.query.shape(), r.dtype);
    rounded_attention_into(output, inputs);
    EXPECT_EQ(output.to_vector(), expected.output.values());
    EXPECT_EQ(rounded_attention_backward(d_output, inputs).d_query.to_vector(),
              expected.d_query.values());
  }
}

// The truth of the tests above, without its roundings: the exponential and the scale are of f32.
TEST_F(RoundedAttentionTest, WithoutRoundingsTheReferenceIsAttention) {
  constexpr RoundingTo kNone{DType::kF64, 53, -1074};
  for (int repeat = 0; repeat < 4; ++repeat) {
    const AttentionOperands inputs = draw(DType::kF64);
    const Tensor d_output = few_digits(inputs.query.shape(), DType::kF64);
    const Reference found(kNone, inputs, d_output);
    const ops::AttentionOptions options{
        .scale = 1 / std::sqrt(static_cast<double>(inputs.query.size(3))),
        .first_seen = inputs.first_seen};
    const auto [output, log_sum_exp] =
        ops::attention(inputs.query, inputs.key, inputs.value, options);
    const ops::AttentionGradients expected = ops::attention_backward(
        d_output, inputs.query, inputs.key, inputs.value, output, log_sum_exp, options);
    // Exponents are at most 32: rounded to f32, they move a weight by less than 80 roundings. A
    // gradient adds up 8 queries of 3 heads, whose scores' gradients are at most 64 * 2 / 4.
    const double of_output = ultra::test::rounding_bound(DType::kF32, 80, 2);
    const double of_gradient = ultra::test::rounding_bound(DType::kF32, 80, 8 * 3 * 32 * 2);
    EXPECT_TRUE(all_near(output, found.output.values(), of_output));
    EXPECT_TRUE(all_near(expected.d_query, found.d_query.values(), of_gradient));
    EXPECT_TRUE(all_near(expected.d_key, found.d_key.values(), of_gradient));
    EXPECT_TRUE(all_near(expected.d_value, found.d_value.values(), of_gradient));
  }
}

// The layer -----------------------------------------------------------------------------------------

class RoundedAttentionLayer : public RoundedAttentionTest {
 protected:
  RoundedAttentionLayer() {
    config.num_heads = 4;
    config.num_kv_heads = 2;
    config.hidden_size = 4 * 8;
  }

  nn::BuildContext context() {
    return {.config = config,
            .device = Device::cpu(),
            .precision = nn::Precision(DType::kBF16),
            .seed = 1,
            .rope = rope,
            .factory = dense};
  }

  /// The core's output, with its inputs drawn from one seed.
  Tensor forward(nn::AttentionCore& core, nn::Saved& saved) const {
    ultra::test::Random same(seed);
    const auto heads = [&](std::size_t count) {
      return same.tensor(Device::cpu(), {2, 6, count, 8}, DType::kBF16);
    };
    const Tensor query = heads(4);
    const Tensor key = heads(2);
    return core.forward(query, key, heads(2), saved);
  }

  nn::ModelConfig config;
  std::shared_ptr<const ops::RopeTable> rope =
      std::make_shared<ops::RopeTable>(Device::cpu(), DType::kF32, 8, 6, 10000.0);
  nn::DenseFactory dense;
};

std::vector<std::string> names_of(const nn::Saved& saved) {
  std::vector<std::string> names;
  saved.for_each([&](const std::string& name, const Tensor&) { names.push_back(name); });
  return names;
}

TEST_F(RoundedAttentionLayer, ItRotatesAndSavesAsTheWrappedOne) {
  config.sliding_window = random.pick({0U, 3U});
  RoundedSumsFactory factory(dense, {.softmax = true});
  const nn::BuildContext built = context();
  const auto core = factory.attention_core(built);
  nn::Saved saved;
  const Tensor output = forward(*core, saved);
  nn::Saved plain_saved;
  const auto plain = dense.attention_core(built);
  const Tensor plain_output = forward(*plain, plain_saved);
  EXPECT_EQ(names_of(saved), names_of(plain_saved));
  EXPECT_EQ(saved.bytes(), plain_saved.bytes());
  EXPECT_NE(output.to_vector(), plain_output.to_vector());

  const std::vector<std::int32_t> positions{0, 1, 2, 3, 4, 5};
  const std::vector<std::int32_t> windows{0, 0, 0, 1, 2, 3, 0, 0, 0, 1, 2, 3};
  AttentionOperands rotated{saved.get("query"), saved.get("key"), saved.get("value")};
  if (config.sliding_window > 0) rotated.first_seen = windows;
  const Tensor expected = output.clone();
  rounded_attention_into(expected, rotated);
  EXPECT_EQ(output.to_vector(), expected.to_vector());
  const nn::QkvGradients wanted = rounded_attention_backward(output, rotated);
  ops::rope_into(wanted.d_query, *rope, positions, ops::Rotation::kBackward);
  ops::rope_into(wanted.d_key, *rope, positions, ops::Rotation::kBackward);
  const nn::QkvGradients gradients = core->backward(output, saved);
  EXPECT_EQ(gradients.d_query.to_vector(), wanted.d_query.to_vector());
  EXPECT_EQ(gradients.d_key.to_vector(), wanted.d_key.to_vector());
  EXPECT_EQ(gradients.d_value.to_vector(), wanted.d_value.to_vector());
  EXPECT_TRUE(saved.empty());
}

TEST_F(RoundedAttentionLayer, OtherSumsLeaveItAlone) {
  RoundedSumsFactory factory(dense, {.norms = true, .loss = true});
  const nn::BuildContext built = context();
  nn::Saved saved(nn::Saved::Mode::kDiscard);
  const Tensor output = forward(*factory.attention_core(built), saved);
  EXPECT_EQ(output.to_vector(), forward(*dense.attention_core(built), saved).to_vector());
  RoundedSumsFactory rounding(dense, {.softmax = true});
  EXPECT_NE(output.to_vector(), forward(*rounding.attention_core(built), saved).to_vector());
}

}  // namespace
}  // namespace ultra::mixed_precision
