#include "common/ops/backend/cpu/tree/tree_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "common/ops/backend/cpu/kernels.hpp"
#include "common/ops/backend/cpu/vector_math.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "common/ops/sums/sum_tree.hpp"

namespace ultra::ops::cpu {
namespace {

struct AddRow {
  template <class T>
  std::vector<T> operator()(std::vector<T> left, const std::vector<T>& right) const {
    add(left.size(), left.data(), right.data(), left.data());
    return left;
  }
};

/// Rows of a table that tokens have touched; the others are 0, and no sum here is -0.
template <class T>
using TouchedRows = std::map<std::size_t, std::vector<T>>;

struct AddTouchedRows {
  template <class T>
  TouchedRows<T> operator()(TouchedRows<T> left, TouchedRows<T> right) const {
    left.merge(right);
    for (auto& [row, sum] : right) left[row] = AddRow()(std::move(left[row]), sum);
    return left;
  }
};

/// The logits of a token that a part has.
template <class T>
std::span<T> row_of_part(const LogitsOfPart& part, std::size_t token) {
  return {part.logits.data<T>() + token * part.logits.size(-1), part.vocabulary.size()};
}

/// Where a token's target stands in its row; outside of the row when another part has it.
std::size_t target_of(const LogitsOfPart& part, std::size_t token) {
  return static_cast<std::size_t>(part.targets.data<std::int32_t>()[token]) - part.vocabulary.begin;
}

}  // namespace

template <class T>
void tree_rms_norm_backward(std::size_t rows, std::size_t hidden, const T* d_y, const T* x,
                            const T* weight, const T* reciprocal_rms, T* d_x, T* d_weight) {
  std::fill_n(d_weight, hidden, T(0));
  if (rows == 0) return;
  const std::size_t leaf_rows = SumTree::of_axis(rows).leaf();
  NodeCounter<std::vector<T>, AddRow> nodes{AddRow()};
  for (std::size_t row = 0; row < rows; row += leaf_rows) {
    const std::size_t at = row * hidden;
    std::vector<T> leaf(hidden, T(0));
    rms_norm_backward(std::min(leaf_rows, rows - row), hidden, d_y + at, x + at, weight,
                      reciprocal_rms + row, d_x + at, leaf.data());
    nodes.add(std::move(leaf));
  }
  std::ranges::copy(nodes.take(), d_weight);
}

template <class T>
void tree_embedding_backward(std::span<const std::int32_t> tokens, const T* d_output,
                             std::size_t first_token, std::size_t rows, std::size_t hidden,
                             T* table) {
  if (tokens.empty()) return;
  const std::size_t leaf_tokens = SumTree::of_axis(tokens.size()).leaf();
  NodeCounter<TouchedRows<T>, AddTouchedRows> nodes{AddTouchedRows()};
  while (!tokens.empty()) {
    TouchedRows<T> leaf;
    const std::size_t count = std::min(leaf_tokens, tokens.size());
    for (const std::int32_t id : tokens.first(count)) {
      if (const auto row = row_of(id, first_token, rows)) {
        std::vector<T>& sum = leaf.try_emplace(*row, hidden, T(0)).first->second;
        add(hidden, sum.data(), d_output, sum.data());
      }
      d_output += hidden;
    }
    nodes.add(std::move(leaf));
    tokens = tokens.subspan(count);
  }
  for (const auto& [row, sum] : nodes.take()) {
    add(hidden, table + row * hidden, sum.data(), table + row * hidden);
  }
}

Tensor tree_highest_logits(const LogitsOfPart& part) {
  const std::size_t tokens = part.targets.numel();
  Tensor highest = Tensor::empty(part.logits.device(), {tokens}, part.logits.dtype());
  dispatch_float(part.logits.dtype(), [&]<class T>() {
    for (std::size_t token = 0; token < tokens; ++token) {
      T& most = highest.data<T>()[token] = -std::numeric_limits<T>::infinity();
      for (const T logit : row_of_part<T>(part, token)) most = std::max(most, logit);
    }
  });
  return highest;
}

Tensor tree_exponentials_of_logits(const LogitsOfPart& part, const Tensor& highest) {
  const std::size_t tokens = part.targets.numel();
  Tensor sums = Tensor::zeros(part.logits.device(), {2, tokens}, part.logits.dtype());
  if (part.vocabulary.size() == 0) return sums;
  const SumTree tree = SumTree::of_axis(part.vocabulary.size());
  dispatch_float(part.logits.dtype(), [&]<class T>() {
    const std::span<T> exponentials = sums.span<T>().first(tokens);
    const std::span<T> target_logits = sums.span<T>().last(tokens);
    for (std::size_t token = 0; token < tokens; ++token) {
      const std::span<T> row = row_of_part<T>(part, token);
      const std::size_t target = target_of(part, token);
      if (target < row.size()) target_logits[token] = row[target];
      const T most = highest.data<T>()[token];
#pragma omp simd
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = exp_of(row[i] - most);
      exponentials[token] = tree.sum(std::span<const T>(row));
    }
  });
  return sums;
}

void tree_cross_entropy_of_parts(const Tensor& loss, const LogitsOfPart& part,
                                 const Tensor& highest, const Tensor& sums, double normalizer,
                                 Write write) {
  const std::size_t tokens = part.targets.numel();
  ExactSum total;
  dispatch_float(part.logits.dtype(), [&]<class T>() {
    const T per_token = static_cast<T>(1.0 / normalizer);
    const T* const exponentials = sums.data<T>();
    const T* const target_logits = exponentials + tokens;
    for (std::size_t token = 0; token < tokens; ++token) {
      const std::span<T> row = row_of_part<T>(part, token);
      if (part.targets.data<std::int32_t>()[token] == kNoTarget) {
        std::ranges::fill(row, T(0));
        continue;
      }
      const double of_token = std::log(static_cast<double>(exponentials[token])) +
                              static_cast<double>(highest.data<T>()[token]) -
                              static_cast<double>(target_logits[token]);
      total.add(of_token / normalizer);
      scale(row.size(), per_token / exponentials[token], row.data());
      const std::size_t target = target_of(part, token);
      if (target < row.size()) row[target] -= per_token;
    }
  });
  total.put(loss.span<double>(), write);
}

template void tree_rms_norm_backward(std::size_t, std::size_t, const float*, const float*,
                                     const float*, const float*, float*, float*);
template void tree_rms_norm_backward(std::size_t, std::size_t, const double*, const double*,
                                     const double*, const double*, double*, double*);
template void tree_embedding_backward(std::span<const std::int32_t>, const float*, std::size_t,
                                      std::size_t, std::size_t, float*);
template void tree_embedding_backward(std::span<const std::int32_t>, const double*, std::size_t,
                                      std::size_t, std::size_t, double*);

}  // namespace ultra::ops::cpu
