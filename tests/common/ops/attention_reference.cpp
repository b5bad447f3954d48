#include "tests/common/ops/attention_reference.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

using test::largest_magnitude;

/// Element (b, s, h, i) of a [batch, seq, heads, head_dim] array.
struct Heads {
  explicit Heads(const Tensor& t)
      : values(t.to_vector()), seq(t.size(1)), heads(t.size(2)), dim(t.size(3)) {}

  [[nodiscard]] std::size_t row(std::size_t b, std::size_t s, std::size_t h) const {
    return ((b * seq + s) * heads + h) * dim;
  }

  std::vector<double> values;
  std::size_t seq;
  std::size_t heads;
  std::size_t dim;
};

double dot(const double* a, const double* b, std::size_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// Scores of one query against all keys; -infinity where it sees none.
std::vector<double> scores_of(const AttentionCase& in, const Heads& q, const Heads& k,
                              std::size_t b, std::size_t i, std::size_t h) {
  std::vector<double> scores;
  const std::size_t kv_head = h / (q.heads / k.heads);
  for (std::size_t j = 0; j < k.seq; ++j) {
    scores.push_back(in.sees(b, i, j) ? in.scale * dot(&q.values[q.row(b, i, h)],
                                                       &k.values[k.row(b, j, kv_head)], q.dim)
                                      : -std::numeric_limits<double>::infinity());
  }
  return scores;
}

/// log(sum(exp(scores))); -infinity when there is none.
double log_sum_exp_of(const std::vector<double>& scores) {
  const double none = -std::numeric_limits<double>::infinity();
  const double highest = scores.empty() ? none : *std::max_element(scores.begin(), scores.end());
  if (highest == none) return none;
  double sum = 0.0;
  for (const double s : scores) sum += std::exp(s - highest);
  return highest + std::log(sum);
}

/// Upper bound of sum_i |q_i k_i| times the scale, over all queries and keys.
double largest_score(const AttentionCase& in) {
  return std::abs(in.scale) * count_of(in.query.size(3)) * largest_magnitude(in.query.to_vector()) *
         largest_magnitude(in.key.to_vector());
}

/// Roundings behind one probability, relative to its size. A score is a sum of head_dim products
/// times the scale; in exp(score - highest) its and the highest score's errors act in full, and so
/// does the subtraction's. Each block of keys (64 of them at least) may rescale what came before.
double probability_roundings(const AttentionCase& in) {
  const double score = (count_of(in.query.size(3)) + 2) * largest_score(in);
  const double keys = count_of(in.key.size(1));
  const double rescales = 1.0 + keys / 64.0;
  return 2 * score + 2 * largest_score(in) + 4 * rescales + keys;
}

}  // namespace

bool AttentionCase::sees(std::size_t b, std::size_t i, std::size_t j) const {
  const auto position = [](const std::vector<std::int32_t>& given, std::size_t at) {
    return given.empty() ? static_cast<std::int32_t>(at) : given[at];
  };
  const std::int32_t key_position = position(key_positions, j);
  if (!first_seen.empty() && key_position < first_seen[b * query.size(1) + i]) return false;
  const std::int32_t own = position(query_positions, i);
  if (window > 0 && key_position <= own - static_cast<std::int32_t>(window)) return false;
  return mask == Mask::kNone || key_position <= own;
}

NaiveForward naive_attention(const AttentionCase& in) {
  const Heads q(in.query);
  const Heads k(in.key);
  const Heads v(in.value);
  NaiveForward result;
  result.output.assign(q.values.size(), 0.0);
  result.log_sum_exp.resize(in.query.size(0) * q.heads * q.seq);
  for (std::size_t b = 0; b < in.query.size(0); ++b) {
    for (std::size_t h = 0; h < q.heads; ++h) {
      for (std::size_t i = 0; i < q.seq; ++i) {
        const std::vector<double> scores = scores_of(in, q, k, b, i, h);
        const double log_sum = log_sum_exp_of(scores);
        result.log_sum_exp[(b * q.heads + h) * q.seq + i] = log_sum;
        for (std::size_t j = 0; j < k.seq; ++j) {
          if (!in.sees(b, i, j)) continue;
          const double p = std::exp(scores[j] - log_sum);
          const double* from = &v.values[v.row(b, j, h / (q.heads / k.heads))];
          double* to = &result.output[q.row(b, i, h)];
          for (std::size_t c = 0; c < q.dim; ++c) to[c] += p * from[c];
        }
      }
    }
  }
  const double roundings = probability_roundings(in);
  // A mean of values: the weights' errors, those of their sum, and of the weighted sum itself.
  result.output_tolerance = test::rounding_bound(
      in.query.dtype(), 2 * roundings + count_of(k.seq) + 2, largest_magnitude(v.values));
  result.log_tolerance =
      test::rounding_bound(in.query.dtype(), roundings + 2, 1.0) +
      test::rounding_bound(in.query.dtype(), 2, largest_score(in) + std::log1p(count_of(k.seq)));
  return result;
}

NaiveBackward naive_attention_backward(const AttentionCase& in, const Tensor& d_output) {
  const Heads q(in.query);
  const Heads k(in.key);
  const Heads v(in.value);
  const Heads d_o(d_output);
  NaiveBackward result;
  result.d_query.assign(q.values.size(), 0.0);
  result.d_key.assign(k.values.size(), 0.0);
  result.d_value.assign(v.values.size(), 0.0);
  const std::vector<double> output = naive_attention(in).output;
  for (std::size_t b = 0; b < in.query.size(0); ++b) {
    for (std::size_t h = 0; h < q.heads; ++h) {
      for (std::size_t i = 0; i < q.seq; ++i) {
        const std::size_t row = q.row(b, i, h);
        const std::vector<double> scores = scores_of(in, q, k, b, i, h);
        const double log_sum = log_sum_exp_of(scores);
        const double delta = dot(&d_o.values[row], &output[row], q.dim);
        for (std::size_t j = 0; j < k.seq; ++j) {
          if (!in.sees(b, i, j)) continue;
          const std::size_t key_row = k.row(b, j, h / (q.heads / k.heads));
          const double p = std::exp(scores[j] - log_sum);
          const double d_p = dot(&d_o.values[row], &v.values[key_row], q.dim);
          const double d_score = p * (d_p - delta) * in.scale;
          for (std::size_t c = 0; c < q.dim; ++c) {
            result.d_query[row + c] += d_score * k.values[key_row + c];
            result.d_key[key_row + c] += d_score * q.values[row + c];
            result.d_value[key_row + c] += p * d_o.values[row + c];
          }
        }
      }
    }
  }
  // d_score is p (d_p - delta): both are sums of head_dim products of at most this size in all,
  // and delta has the error of the output in it. A query's probabilities add up to 1; a key's, over
  // the queries that share its head, to at most their number.
  const DType dtype = in.query.dtype();
  const double roundings = 4 * probability_roundings(in) + count_of(2 * q.dim + k.seq) + 8;
  const double d_size = count_of(q.dim) * largest_magnitude(d_o.values) *
                        largest_magnitude(v.values) * std::abs(in.scale) * 2;
  const double queries = count_of(q.seq * (q.heads / std::max<std::size_t>(k.heads, 1)));
  const double key_roundings = roundings + queries;
  result.query_tolerance =
      test::rounding_bound(dtype, roundings, d_size * largest_magnitude(k.values));
  result.key_tolerance =
      test::rounding_bound(dtype, key_roundings, queries * d_size * largest_magnitude(q.values));
  result.value_tolerance =
      test::rounding_bound(dtype, key_roundings, queries * largest_magnitude(d_o.values));
  return result;
}

}  // namespace ultra::ops
