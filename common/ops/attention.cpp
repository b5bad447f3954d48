#include "common/ops/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/errors.hpp"
#include "common/ops/backend/backend.hpp"
#include "common/ops/dtype_check.hpp"

namespace ultra::ops {
namespace {

/// Whether no position is smaller than the one before; without a branch for each.
bool ascend(std::span<const std::int32_t> positions) {
  int descents = 0;
  for (std::size_t i = 1; i < positions.size(); ++i) {
    descents |= static_cast<int>(positions[i] < positions[i - 1]);
  }
  return descents == 0;
}

/// Owns the positions 0, 1, 2, ... where the caller gave none.
class Positions {
 public:
  Positions(std::span<const std::int32_t> given, std::size_t count, const char* name) {
    if (given.empty()) {
      counted_.resize(count);
      std::iota(counted_.begin(), counted_.end(), 0);
      positions_ = counted_;
      return;
    }
    if (given.size() != count || !ascend(given)) {
      throw ShapeError(fmt::format("attention: expected {} ascending {} positions, found {}{}",
                                   count, name, given.size(),
                                   given.size() == count ? " that descend somewhere" : ""));
    }
    positions_ = given;
  }
  [[nodiscard]] std::span<const std::int32_t> get() const { return positions_; }

 private:
  std::vector<std::int32_t> counted_;
  std::span<const std::int32_t> positions_;
};

void check_inputs(const Tensor& query, const Tensor& key, const Tensor& value) {
  const auto is_4d = [](const Tensor& t) {
    return t.defined() && t.shape().rank() == 4 && t.is_contiguous();
  };
  if (!is_4d(query) || !is_4d(key) || !is_4d(value)) {
    throw ShapeError(
        fmt::format("attention: expected contiguous [batch, seq, heads, head_dim], found {}, {}, "
                    "{}",
                    query.shape().str(), key.shape().str(), value.shape().str()));
  }
  const bool fits = key.shape() == value.shape() && query.size(0) == key.size(0) &&
                    query.size(3) == key.size(3) && key.dtype() == query.dtype() &&
                    value.dtype() == query.dtype();
  if (!fits) {
    throw ShapeError(fmt::format("attention: query {}, key {} and value {} do not fit each other",
                                 query.shape().str(), key.shape().str(), value.shape().str()));
  }
  if (key.size(2) == 0 || query.size(2) % key.size(2) != 0) {
    throw ShapeError(fmt::format("attention: {} query heads are no multiple of {} key/value heads",
                                 query.size(2), key.size(2)));
  }
}

/// As many as there are queries, ascending in each sequence; or none.
void check_first_seen(std::span<const std::int32_t> first_seen, const Tensor& query) {
  if (first_seen.empty()) return;
  const std::size_t seq = query.size(1);
  bool fits = first_seen.size() == query.size(0) * seq;
  for (std::size_t b = 0; fits && b < query.size(0); ++b) {
    fits = ascend(first_seen.subspan(b * seq, seq));
  }
  if (fits) return;
  throw ShapeError(
      fmt::format("attention: expected the first key that each of {} x {} queries sees, ascending "
                  "in each sequence, found {} positions that are not",
                  query.size(0), seq, first_seen.size()));
}

DType sums_dtype(const Tensor& query, const AttentionOptions& options) {
  return options.sums == AttentionSums::kWide ? accumulation_dtype(query.dtype()) : query.dtype();
}

/// Options with all that the caller left to be counted: positions, and where windows begin.
class CompleteOptions {
 public:
  CompleteOptions(const AttentionOptions& options, const Tensor& query, const Tensor& key)
      : query_positions_(options.query_positions, query.size(1), "query"),
        key_positions_(options.key_positions, key.size(1), "key"),
        options_(options) {
    check_first_seen(options.first_seen, query);
    options_.query_positions = query_positions_.get();
    options_.key_positions = key_positions_.get();
    if (options.window == 0) return;
    first_seen_ = first_in_window(options.first_seen, options_.query_positions, options.window,
                                  query.size(0));
    options_.first_seen = first_seen_;
  }
  [[nodiscard]] const AttentionOptions& get() const { return options_; }

 private:
  Positions query_positions_;
  Positions key_positions_;
  std::vector<std::int32_t> first_seen_;
  AttentionOptions options_;
};

}  // namespace

std::vector<std::int32_t> first_in_window(std::span<const std::int32_t> first_seen,
                                          std::span<const std::int32_t> positions,
                                          std::size_t window, std::size_t batch) {
  std::vector<std::int32_t> first(first_seen.begin(), first_seen.end());
  const bool hides =
      window > 0 && !positions.empty() && static_cast<std::size_t>(positions.back()) >= window;
  if (!hides) return first;
  first.resize(batch * positions.size());
  const auto before = static_cast<std::int32_t>(window - 1);
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] = std::max(first[i], positions[i % positions.size()] - before);
  }
  return first;
}

AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options) {
  check_inputs(query, key, value);
  const CompleteOptions complete(options, query, key);
  const AttentionResult result{
      Tensor::empty(query.device(), query.shape(), sums_dtype(query, options)),
      Tensor::empty(query.device(), {query.size(0), query.size(2), query.size(1)},
                    accumulation_dtype(query.dtype()))};
  backend_of(query.device()).attention(result, query, key, value, complete.get());
  return result;
}

AttentionGradients attention_backward(const Tensor& d_output, const Tensor& query,
                                      const Tensor& key, const Tensor& value, const Tensor& output,
                                      const Tensor& log_sum_exp, const AttentionOptions& options) {
  check_inputs(query, key, value);
  const CompleteOptions complete(options, query, key);
  expect_stored_or_sums("d_output of attention_backward", d_output, query.shape(), query.dtype());
  expect_stored_or_sums("output of attention_backward", output, query.shape(), query.dtype());
  expect_tensor("log_sum_exp of attention_backward", log_sum_exp,
                {query.size(0), query.size(2), query.size(1)}, accumulation_dtype(query.dtype()));
  const DType dtype = sums_dtype(query, options);
  const AttentionGradients gradients{Tensor::zeros(query.device(), query.shape(), dtype),
                                     Tensor::zeros(key.device(), key.shape(), dtype),
                                     Tensor::zeros(value.device(), value.shape(), dtype)};
  backend_of(query.device())
      .attention_backward(gradients, d_output, query, key, value, output, log_sum_exp,
                          complete.get());
  return gradients;
}

}  // namespace ultra::ops
