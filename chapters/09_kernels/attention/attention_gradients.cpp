#include "chapters/09_kernels/attention/attention_gradients.hpp"

#include <algorithm>
#include <cmath>

namespace ultra::ladders {
namespace {

constexpr std::size_t kMostProductsOfGradients = std::size_t{1} << 27;  // of the f64 computation

// What fp32 may lose below its smallest normal number: a power of 2 flushed to zero, a product.
constexpr double kUnderflow = 0x1p-126;

// A number and how far a rung's can be off.
struct Approximation {
  double value = 0.0;
  double error = 0.0;
};

// A sum of products that is taken in fp32: gamma of twice the count, because tensor cores may cut
// off instead of rounding to nearest (attention_reference.cpp).
Approximation dot(const float* left, const float* right, std::size_t count) {
  const ExactSum sum = exact_dot({left, count}, {right, count});
  return {.value = sum.value, .error = rounding_of(2.0 * (double(count) + 4.0)) * sum.magnitude};
}

// One element of the matrix: its weight, and the gradient of its raw score.
struct Pair {
  Approximation weight;
  Approximation gradient;
};

// The rows of a gradient, summed over pairs.
class RowSum {
 public:
  RowSum(std::size_t columns, std::size_t terms, double stored)
      : relative_(rounding_of(2.0 * double(terms) + 8.0) + stored), columns_(columns) {}

  // Adds factor * row: the factor's own error, and the roundings of its storage, of the product and
  // of the sum.
  void add(const Approximation& factor, const float* row) {
    const double error = factor.error + relative_ * (std::abs(factor.value) + factor.error);
    for (std::size_t d = 0; d < columns_.size(); ++d) {
      columns_[d].value += factor.value * double{row[d]};
      columns_[d].error += error * std::abs(double{row[d]}) + kUnderflow;
    }
  }

  void compare(const char* output, std::size_t first, std::span<const float> found,
               double stored_output, Verdict& verdict) const {
    for (std::size_t d = 0; d < columns_.size(); ++d) {
      const auto& [value, error] = columns_[d];
      verdict.compare(output, first + d, double{found[first + d]}, value,
                      error * (1.0 + stored_output) + stored_output * std::abs(value));
    }
  }

 private:
  double relative_;
  std::vector<Approximation> columns_;
};

class Judge {
 public:
  Judge(const AttentionInputs& inputs, std::span<const float> d_o,
        const AttentionGradients& gradients, const AttentionRounding& rounding)
      : inputs_(inputs), d_o_(d_o), gradients_(gradients), rounding_(rounding) {}

  Verdict judge() {
    const AttentionShape& shape = inputs_.shape;
    const std::size_t products = 5 * seq_len_ * head_dim_;
    const std::size_t most_queries = std::max<std::size_t>(2, kMostProductsOfGradients / products);
    const std::size_t most_keys = std::max<std::size_t>(2, most_queries / size(shape.group));
    for (const std::size_t row : sample(shape.rows(), most_queries, inputs_.seed)) {
      compare_query(row);
    }
    for (const std::size_t row :
         sample(shape.rows() / size(shape.group), most_keys, inputs_.seed)) {
      compare_key(row);
    }
    return verdict_;
  }

 private:
  void compare_query(std::size_t row) {
    const std::size_t query = row % seq_len_;
    const std::size_t first_key = row / seq_len_ / size(inputs_.shape.group) * seq_len_;
    const std::size_t keys = inputs_.shape.causal ? query + 1 : seq_len_;
    RowSum d_q(head_dim_, keys, rounding_.weights);
    for (std::size_t key = first_key; key < first_key + keys; ++key) {
      d_q.add(pair(row, key).gradient, &inputs_.k[key * head_dim_]);
    }
    d_q.compare("d_q", row * head_dim_, gradients_.d_q, rounding_.output, verdict_);
  }

  void compare_key(std::size_t key) {
    const std::size_t group = size(inputs_.shape.group);
    const std::size_t first_query = inputs_.shape.causal ? key % seq_len_ : 0;
    const std::size_t terms = group * (seq_len_ - first_query);
    RowSum d_k(head_dim_, terms, rounding_.weights);
    RowSum d_v(head_dim_, terms, rounding_.weights);
    for (std::size_t member = 0; member < group; ++member) {
      const std::size_t head = key / seq_len_ * group + member;
      for (std::size_t query = first_query; query < seq_len_; ++query) {
        const std::size_t row = head * seq_len_ + query;
        const auto [weight, gradient] = pair(row, key);
        d_k.add(gradient, &inputs_.q[row * head_dim_]);
        d_v.add(weight, &d_o_[row * head_dim_]);
      }
    }
    d_k.compare("d_k", key * head_dim_, gradients_.d_k, rounding_.output, verdict_);
    d_v.compare("d_v", key * head_dim_, gradients_.d_v, rounding_.output, verdict_);
  }

  // weight = exp(x), x = score - lse: the score's error and the roundings of x, of score and of lse
  // to powers of 2 are factors exp(error); the exponential itself as in attention_reference.cpp.
  // gradient = weight (d_o . v - delta) scale: the weight's relative error and four roundings, and
  // both dot products' errors.
  [[nodiscard]] Pair pair(std::size_t row, std::size_t key) const {
    const double scale = 1.0 / std::sqrt(double(inputs_.shape.head_dim));
    const float* const gradient_row = &d_o_[row * head_dim_];
    const auto raw = dot(&inputs_.q[row * head_dim_], &inputs_.k[key * head_dim_], head_dim_);
    const auto product = dot(gradient_row, &inputs_.v[key * head_dim_], head_dim_);
    const auto delta = dot(gradient_row, &gradients_.o[row * head_dim_], head_dim_);
    const double lse = double{gradients_.lse[row]};
    const double score = raw.value * scale;
    const double weight = std::exp(score - lse);
    const double in_argument =
        raw.error * scale + 4.0 * kFloatRounding * (std::abs(score) + std::abs(lse));
    const double relative = in_argument * std::exp(in_argument) +
                            8.0 * kFloatRounding * std::abs(score - lse) + rounding_of(16.0);
    const double difference = product.value - delta.value;
    const double gradient_error = std::abs(difference) * (relative + 4.0 * kFloatRounding) +
                                  (product.error + delta.error) * (1.0 + relative);
    const double underflow = kUnderflow * (1.0 + std::abs(difference));
    return {.weight = {.value = weight, .error = weight * relative + kUnderflow},
            .gradient = {.value = weight * difference * scale,
                         .error = (weight * gradient_error + underflow) * scale}};
  }

  const AttentionInputs& inputs_;
  std::span<const float> d_o_;
  const AttentionGradients& gradients_;
  AttentionRounding rounding_;
  std::size_t seq_len_ = size(inputs_.shape.seq_len);
  std::size_t head_dim_ = size(inputs_.shape.head_dim);
  Verdict verdict_;
};

}  // namespace

Verdict judge_attention_gradients(const AttentionInputs& inputs, std::span<const float> d_o,
                                  const AttentionGradients& gradients,
                                  const AttentionRounding& rounding) {
  return Judge(inputs, d_o, gradients, rounding).judge();
}

}  // namespace ultra::ladders
