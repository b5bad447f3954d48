#include "chapters/09_kernels/attention/attention_reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/random_values.hpp"

namespace ultra::ladders {
namespace {

constexpr std::size_t kMostProducts = std::size_t{1} << 26;  // of the f64 computation
constexpr float kLargeQueries = 40.0F;

bool is_causal(std::uint64_t seed) { return seed % 2 == 1; }

}  // namespace

std::vector<Dimension> attention_dimensions(const Sizes& emulated) {
  return {{.name = "batch", .emulated = emulated[0], .gpu = 4},
          {.name = "kv_heads", .emulated = emulated[1], .gpu = 4},
          {.name = "group", .emulated = emulated[2], .gpu = 4},
          {.name = "seq_len", .emulated = emulated[3], .gpu = 4096},
          {.name = "head_dim", .emulated = emulated[4], .gpu = 128}};
}

AttentionInputs draw_attention(const Sizes& sizes, std::uint64_t seed) {
  const AttentionShape shape{.batch = sizes[0],
                             .kv_heads = sizes[1],
                             .group = sizes[2],
                             .seq_len = sizes[3],
                             .head_dim = sizes[4],
                             .causal = is_causal(seed),
                             .scale = 1.0F / std::sqrt(static_cast<float>(sizes[4]))};
  const std::size_t queries = shape.rows() * size(shape.head_dim);
  const std::size_t keys = queries / size(shape.group);
  AttentionInputs inputs{.shape = shape,
                         .seed = seed,
                         .q = normal_values(queries, seed, "q"),
                         .k = normal_values(keys, seed, "k"),
                         .v = normal_values(keys, seed, "v")};
  if (seed / 2 % 2 == 1) {
    for (float& element : inputs.q) {
      element *= kLargeQueries;
    }
  }
  return inputs;
}

AttentionInputs draw_attention_bf16(const Sizes& sizes, std::uint64_t seed) {
  AttentionInputs inputs = draw_attention(sizes, seed);
  for (std::vector<float>* const values : {&inputs.q, &inputs.k, &inputs.v}) {
    *values = to_float(to_bf16(*values));
  }
  return inputs;
}

Cost attention_cost(const Sizes& sizes, std::uint64_t seed, const AttentionWork& work) {
  const double heads = double(sizes[0]) * sizes[1] * sizes[2];
  const double keys_of_query = is_causal(seed) ? (sizes[3] + 1.0) / 2.0 : sizes[3];
  const double pairs = heads * sizes[3] * keys_of_query;
  const double rows = heads * sizes[3];
  const double elements = rows * sizes[4];
  return {.operations = 2.0 * work.products * pairs * sizes[4],
          .least_bytes =
              work.element_bytes * work.tensors * (elements + elements / sizes[2]) + 4.0 * rows};
}

std::string refuse_long_attention_rows(const Sizes& sizes) {
  if (sizes[4] > kernels::attention::kMostHeadDim) {
    return fmt::format("head_dim is {}, expected at most {}: rows are held in registers", sizes[4],
                       kernels::attention::kMostHeadDim);
  }
  return {};
}

std::string refuse_attention_tiles(const Sizes& sizes) {
  if (sizes[4] % 4 != 0) {
    return fmt::format("head_dim is {}, expected a multiple of 4: rows are loaded 16 bytes at once",
                       sizes[4]);
  }
  return refuse_long_attention_rows(sizes);
}

// Rows begin at multiples of 16 bytes.
std::string refuse_attention_bf16(const Sizes& sizes) {
  if (sizes[4] % 8 != 0 || sizes[4] > kernels::attention::kMostHeadDim) {
    return fmt::format("head_dim is {}, expected a multiple of 8, at most {}", sizes[4],
                       kernels::attention::kMostHeadDim);
  }
  return {};
}

ExactSum exact_dot(std::span<const float> left, std::span<const float> right) {
  ExactSum sum;
  for (std::size_t d = 0; d < left.size(); ++d) {
    sum.add(double{left[d]} * double{right[d]});
  }
  return sum;
}

// A score is a sum of D products, times the scale, which is rounded itself, as is its product with
// log2(e) in rungs that compute powers of 2: at most gamma_n of the magnitudes' sum, n = D + 4
// (Higham 2002, section 3.5). Twice that, because tensor cores may cut off instead of rounding to
// nearest (Fasi et al. 2021, "Numerical behavior of NVIDIA tensor cores").
AttentionRow::AttentionRow(const AttentionInputs& inputs, std::size_t row)
    : inputs_(inputs), row_(row) {
  const AttentionShape& shape = inputs.shape;
  const std::size_t head = row / size(shape.seq_len);
  const std::size_t query = row % size(shape.seq_len);
  const std::size_t keys = shape.causal ? query + 1 : size(shape.seq_len);
  const std::size_t head_dim = size(shape.head_dim);
  first_key_row_ = head / size(shape.group) * size(shape.seq_len);
  const double scale = 1.0 / std::sqrt(double(shape.head_dim));
  for (std::size_t j = 0; j < keys; ++j) {
    const ExactSum score = exact_dot({&inputs.q[row * head_dim], head_dim},
                                     {&inputs.k[key_row(j) * head_dim], head_dim});
    scores_.push_back(score.value * scale);
    score_errors_.push_back(rounding_of(2.0 * (shape.head_dim + 4)) * score.magnitude * scale);
  }
  largest_ = *std::ranges::max_element(scores_);
  double sum = 0.0;
  for (const double score : scores_) {
    sum += std::exp(score - largest_);
  }
  lse_ = largest_ + std::log(sum);
}

// Weight j is exp(x), x = score_j - largest <= 0. Its relative error, with u = 2^-24:
//  - the score's absolute error d becomes the factor exp(d);
//  - x is rounded: u |x|; __expf is off by (2 + 1.173 |x|) units in the last place of 2u each (CUDA
//    C++ Programming Guide, "Intrinsic Functions"), exp2 and expf by less: in all below 8 u |x|
//    with the same again for the factors of an online softmax, whose arguments add up to x at most;
//  - each of at most S such factors adds 4u for its exponential and u for the product, each of S
//    additions u, the exponential itself 4u: gamma of 8 S + 16.
// A rung that stores scores or the lse before it takes the exponential adds u (|score| + |lse|) and
// the lse's own error, which is the mean of the weights' errors.
// o = (sum of weights v) / (sum of weights): both sums' errors, the second times |o|. Exponentials
// below 2^-126 may be lost; their sum is far below the other terms.
void AttentionRow::compare(std::span<const float> o, float lse, const AttentionRounding& rounding,
                           Verdict& verdict) const {
  const std::size_t head_dim = size(inputs_.shape.head_dim);
  std::vector<double> expected(head_dim);
  std::vector<double> error(head_dim);
  std::vector<double> weight_errors;
  double sum_error = 0.0;
  for (std::size_t j = 0; j < keys(); ++j) {
    const double weight = std::exp(scores_[j] - lse_);
    const double relative = score_errors_[j] * std::exp(score_errors_[j]) +
                            8.0 * kFloatRounding * (largest_ - scores_[j]) +
                            rounding_of(8.0 * double(keys()) + 16.0) +
                            kFloatRounding * (std::abs(scores_[j]) + std::abs(lse_));
    weight_errors.push_back(relative);
    sum_error += weight * relative;
  }
  for (std::size_t j = 0; j < keys(); ++j) {
    const double weight = std::exp(scores_[j] - lse_);
    const double relative = weight_errors[j] + sum_error + rounding.weights;
    for (std::size_t d = 0; d < head_dim; ++d) {
      const double term = weight * double{inputs_.v[key_row(j) * head_dim + d]};
      expected[d] += term;
      error[d] += std::abs(term) * relative;
    }
  }
  for (std::size_t d = 0; d < head_dim; ++d) {
    const double of_o = (error[d] + std::abs(expected[d]) * (sum_error + 4.0 * kFloatRounding)) /
                        std::max(1.0 - sum_error, 0.5);
    verdict.compare("o", row_ * head_dim + d, double{o[d]}, expected[d],
                    of_o * (1.0 + rounding.output) + std::abs(expected[d]) * rounding.output);
  }
  // The logarithm turns the sum's relative error into an absolute one; then two sums are rounded,
  // and the conversions from log2.
  const double magnitude = std::abs(lse_) + std::abs(largest_) + std::abs(lse_ - largest_);
  verdict.compare("lse", row_, double{lse}, lse_,
                  sum_error / std::max(1.0 - sum_error, 0.5) + 8.0 * kFloatRounding * magnitude);
}

Verdict judge_attention(const AttentionInputs& inputs, std::span<const float> o,
                        std::span<const float> lse, const AttentionRounding& rounding) {
  const std::size_t head_dim = size(inputs.shape.head_dim);
  const std::size_t products_of_row = 2 * size(inputs.shape.seq_len) * head_dim;
  const std::size_t most = std::max<std::size_t>(2, kMostProducts / products_of_row);
  Verdict verdict;
  for (const std::size_t row : sample(inputs.shape.rows(), most, inputs.seed)) {
    AttentionRow(inputs, row)
        .compare(o.subspan(row * head_dim, head_dim), lse[row], rounding, verdict);
  }
  return verdict;
}

}  // namespace ultra::ladders
