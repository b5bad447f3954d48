#include "chapters/10_mixed_precision/training/rounded_attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "chapters/10_mixed_precision/training/half_arithmetic.hpp"
#include "common/base/interrupt.hpp"
#include "common/ops/attention.hpp"

namespace ultra::mixed_precision {
namespace {

template <HalfScalar T>
void softmax(std::span<float> scores) {
  const float highest = *std::ranges::max_element(scores);
  float sum = 0;
  for (float& each : scores) {
    each = rounded<T>(std::exp(rounded<T>(each - highest)));
    sum = rounded<T>(sum + each);
  }
  for (float& each : scores) each = rounded<T>(each / sum);
}

template <HalfScalar T>
void softmax_backward(std::span<const float> weights, std::span<float> d_weights) {
  float sum = 0;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    sum = rounded<T>(sum + rounded<T>(weights[j] * d_weights[j]));
  }
  for (std::size_t j = 0; j < weights.size(); ++j) {
    d_weights[j] = rounded<T>(weights[j] * rounded<T>(d_weights[j] - sum));
  }
}

float dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0F);
}

void add_scaled(std::span<float> into, float factor, std::span<const float> x) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += factor * x[i];
}

/// The vectors of a tensor [batch, seq, heads, head_dim], in f32.
class Vectors {
 public:
  explicit Vectors(Tensor tensor)
      : tensor_(std::move(tensor)),
        values_(tensor_.span<float>()),
        seq_(tensor_.size(1)),
        heads_(tensor_.size(2)),
        head_dim_(tensor_.size(3)) {}

  [[nodiscard]] std::span<float> at(std::size_t batch, std::size_t token, std::size_t head) const {
    const std::size_t vector = (batch * seq_ + token) * heads_ + head;
    return values_.subspan(vector * head_dim_, head_dim_);
  }
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
  std::span<float> values_;
  std::size_t seq_;
  std::size_t heads_;
  std::size_t head_dim_;
};

Vectors copy_of(const Tensor& tensor) { return Vectors(cast(tensor, DType::kF32)); }

Vectors zeros_like(const Tensor& tensor) {
  return Vectors(Tensor::zeros(tensor.device(), tensor.shape(), DType::kF32));
}

/// One query: a token of a sequence, in a head.
struct Query {
  std::size_t batch;
  std::size_t token;
  std::size_t head;
  std::size_t kv_head;
  Range seen;  ///< the keys that it sees
};

/// Calls fn(query) for each.
template <class Fn>
void for_each_query(const AttentionOperands& inputs, const Fn& fn) {
  const Tensor& query = inputs.query;
  const std::size_t seq = query.size(1);
  const std::size_t group = query.size(2) / inputs.key.size(2);
  for (std::size_t batch = 0; batch < query.size(0); ++batch) {
    for (std::size_t head = 0; head < query.size(2); ++head) {
      throw_if_interrupted();  // a head of a long sequence takes its time
      for (std::size_t token = 0; token < seq; ++token) {
        const std::int32_t first =
            inputs.first_seen.empty() ? 0 : inputs.first_seen[batch * seq + token];
        fn(Query{.batch = batch,
                 .token = token,
                 .head = head,
                 .kv_head = head / group,
                 .seen = {static_cast<std::size_t>(first), token + 1}});
      }
    }
  }
}

/// Scores and weights of queries, in copies of the inputs.
template <HalfScalar T>
class Attention {
 public:
  explicit Attention(const AttentionOperands& inputs)
      : query_(copy_of(inputs.query)),
        key_(copy_of(inputs.key)),
        value_(copy_of(inputs.value)),
        scale_(1 / std::sqrt(static_cast<float>(inputs.query.size(3)))) {}

  [[nodiscard]] std::vector<float> weights(const Query& at) const {
    std::vector<float> row = products(query_.at(at.batch, at.token, at.head), key_, at);
    for (float& each : row) each = rounded<T>(each * scale_);
    softmax<T>(row);
    return row;
  }

  void attend(const Query& at, const Vectors& output) const {
    const std::vector<float> row = weights(at);
    for (std::size_t j = 0; j < row.size(); ++j) {
      add_scaled(output.at(at.batch, at.token, at.head), row[j],
                 value_.at(at.batch, at.seen.begin + j, at.kv_head));
    }
  }

  /// Adds to the gradients of the query, of the keys that it sees and of their values.
  void differentiate(const Query& at, std::span<const float> d_output, const Vectors& d_query,
                     const Vectors& d_key, const Vectors& d_value) const {
    const std::vector<float> row = weights(at);
    std::vector<float> d_scores = products(d_output, value_, at);
    softmax_backward<T>(row, d_scores);
    for (std::size_t j = 0; j < row.size(); ++j) {
      const std::size_t token = at.seen.begin + j;
      const float d_score = rounded<T>(d_scores[j] * scale_);
      add_scaled(d_query.at(at.batch, at.token, at.head), d_score,
                 key_.at(at.batch, token, at.kv_head));
      add_scaled(d_key.at(at.batch, token, at.kv_head), d_score,
                 query_.at(at.batch, at.token, at.head));
      add_scaled(d_value.at(at.batch, token, at.kv_head), row[j], d_output);
    }
  }

 private:
  /// Of a vector with those of all keys, or of their values, that a query sees.
  static std::vector<float> products(std::span<const float> with, const Vectors& of,
                                     const Query& at) {
    std::vector<float> row(at.seen.size());
    for (std::size_t j = 0; j < row.size(); ++j) {
      row[j] = rounded<T>(dot(with, of.at(at.batch, at.seen.begin + j, at.kv_head)));
    }
    return row;
  }

  Vectors query_;
  Vectors key_;
  Vectors value_;
  float scale_;
};

class RoundedAttention : public nn::AttentionCore {
 public:
  RoundedAttention(std::unique_ptr<nn::AttentionCore> core,
                   std::shared_ptr<const ops::RopeTable> rope, std::size_t window)
      : core_(std::move(core)), rope_(std::move(rope)), window_(window) {}

  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 nn::Saved& saved) override {
    const Tensor output = core_->forward(query, key, value, saved);
    const std::vector<std::int32_t> first = first_seen(query, saved);
    rounded_attention_into(output, {query, key, value, first});
    return output;
  }

  nn::QkvGradients backward(const Tensor& d_output, nn::Saved& saved) override {
    saved.drop("output");
    saved.drop("log_sum_exp");
    const Tensor query = saved.take("query");
    const Tensor key = saved.take("key");
    const std::vector<std::int32_t> first = first_seen(query, saved);
    const nn::QkvGradients gradients =
        rounded_attention_backward(d_output, {query, key, saved.take("value"), first});
    const auto positions = positions_of(query);
    ops::rope_into(gradients.d_query, *rope_, positions, ops::Rotation::kBackward);
    ops::rope_into(gradients.d_key, *rope_, positions, ops::Rotation::kBackward);
    return gradients;
  }

  std::vector<nn::Parameter*> parameters() override { return core_->parameters(); }

 private:
  static std::vector<std::int32_t> positions_of(const Tensor& query) {
    std::vector<std::int32_t> positions(query.size(1));
    std::iota(positions.begin(), positions.end(), 0);
    return positions;
  }

  [[nodiscard]] std::vector<std::int32_t> first_seen(const Tensor& query,
                                                     const nn::Saved& saved) const {
    std::span<const std::int32_t> begins;
    if (saved.pass().places) begins = saved.pass().places->document_begins;
    return ops::first_in_window(begins, positions_of(query), window_, query.size(0));
  }

  std::unique_ptr<nn::AttentionCore> core_;
  std::shared_ptr<const ops::RopeTable> rope_;
  std::size_t window_;
};

}  // namespace

void rounded_softmax(std::span<float> scores, DType dtype) {
  with_half(dtype, [&]<class T>() { softmax<T>(scores); });
}

void rounded_softmax_backward(std::span<const float> weights, std::span<float> d_weights,
                              DType dtype) {
  with_half(dtype, [&]<class T>() { softmax_backward<T>(weights, d_weights); });
}

void rounded_attention_into(const Tensor& output, const AttentionOperands& inputs) {
  const Vectors sums = zeros_like(output);
  with_half(inputs.query.dtype(), [&]<class T>() {
    const Attention<T> attention(inputs);
    for_each_query(inputs, [&](const Query& at) { attention.attend(at, sums); });
  });
  cast_into(output, sums.tensor());
}

nn::QkvGradients rounded_attention_backward(const Tensor& d_output,
                                            const AttentionOperands& inputs) {
  const Vectors d_out = copy_of(d_output);
  const Vectors d_query = zeros_like(inputs.query);
  const Vectors d_key = zeros_like(inputs.key);
  const Vectors d_value = zeros_like(inputs.value);
  with_half(inputs.query.dtype(), [&]<class T>() {
    const Attention<T> attention(inputs);
    for_each_query(inputs, [&](const Query& at) {
      attention.differentiate(at, d_out.at(at.batch, at.token, at.head), d_query, d_key, d_value);
    });
  });
  const DType dtype = inputs.query.dtype();
  return {cast(d_query.tensor(), dtype), cast(d_key.tensor(), dtype),
          cast(d_value.tensor(), dtype)};
}

std::unique_ptr<nn::AttentionCore> rounded_attention(std::unique_ptr<nn::AttentionCore> core,
                                                     const nn::BuildContext& context) {
  return std::make_unique<RoundedAttention>(std::move(core), context.rope,
                                            context.config.sliding_window);
}

}  // namespace ultra::mixed_precision
