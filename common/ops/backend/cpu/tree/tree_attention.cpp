#include "common/ops/backend/cpu/tree/tree_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/interrupt.hpp"
#include "common/ops/backend/cpu/attention_rows.hpp"
#include "common/ops/backend/cpu/tree_gemm.hpp"
#include "common/ops/backend/cpu/vector_math.hpp"

namespace ultra::ops::cpu {
namespace {

constexpr std::size_t kQueryBlock = 64;

/// Of keys: they have one leaf for sequences of any length, since no rank has a part of them.
SumTree tree_of_keys() { return SumTree::of_axis(SumTree::kLongestLeaf); }

/// Some queries of a head, and the keys from the first one to the last that they see.
template <class T>
struct Block {
  const AttentionOperands<T>& in;
  const HeadLayout& head;
  Range queries;
  std::size_t keys;

  Block(const AttentionOperands<T>& operands, const HeadLayout& layout, Range rows)
      : in(operands),
        head(layout),
        queries(rows),
        keys(seen_keys(*operands.options, layout, rows.end - 1).end) {}

  [[nodiscard]] std::size_t dim() const { return in.extents.head_dim; }
  [[nodiscard]] Range seen_by(std::size_t query) const {
    return seen_keys(*in.options, head, query);
  }
  /// Rows of queries, or of what has their shape.
  template <class X>
  [[nodiscard]] MatrixView<X> at_queries(X* x) const {
    return {x + head.query + queries.begin * head.query_stride, head.query_stride};
  }
  /// Rows of keys, or of what has their shape.
  template <class X>
  [[nodiscard]] MatrixView<X> at_keys(X* x) const {
    return {x + head.key, head.key_stride};
  }

  /// left [queries, dim] times right [keys, dim], transposed: a number for each pair.
  void pairs(MatrixView<const T> left, MatrixView<const T> right, std::vector<T>& into) const {
    into.resize(queries.size() * keys);
    tree_gemm(SumTree::of_axis(dim()), Transpose::kNo, Transpose::kYes, queries.size(), keys, dim(),
              left, right, Write::kOverwrite, MatrixView<T>{into.data(), keys});
  }
  void scores(std::vector<T>& into) const {
    pairs(at_queries(in.query), at_keys(in.key), into);
    scale(into.size(), static_cast<T>(in.options->scale), into.data());
  }
  /// Numbers of pairs times rows of keys: a row for each query, summed over keys.
  void sum_over_keys(const std::vector<T>& numbers, const T* rows, T* into) const {
    tree_gemm(tree_of_keys(), Transpose::kNo, Transpose::kNo, queries.size(), dim(), keys,
              MatrixView<const T>{numbers.data(), keys}, at_keys(rows), Write::kOverwrite,
              at_queries(into));
  }
  /// Numbers of pairs times rows of queries: a row for each key.
  void sum_over_queries(const std::vector<T>& numbers, const T* rows, Write write,
                        std::vector<T>& into) const {
    tree_gemm(SumTree::of_axis(queries.size()), Transpose::kYes, Transpose::kNo, keys, dim(),
              queries.size(), MatrixView<const T>{numbers.data(), keys}, at_queries(rows), write,
              MatrixView<T>{into.data(), dim()});
  }
};

template <class T>
void attend(const Block<T>& block, std::vector<T>& scores, T* output, T* log_sum_exp) {
  const MatrixView<T> rows = block.at_queries(output);
  const std::size_t count = block.queries.size();
  if (block.keys == 0) {
    for (std::size_t i = 0; i < count; ++i)
      std::fill_n(rows.data + i * rows.stride, block.dim(), T(0));
    std::fill_n(log_sum_exp, count, -std::numeric_limits<T>::infinity());
    return;
  }
  block.scores(scores);
  T sums[kQueryBlock];
  for (std::size_t i = 0; i < count; ++i) {
    T* const row = scores.data() + i * block.keys;
    const Range seen = block.seen_by(block.queries.begin + i);
    clear_outside(row, block.keys, seen);
    const T highest = largest(row + seen.begin, seen.size());
#pragma omp simd
    for (std::size_t j = seen.begin; j < seen.end; ++j) row[j] = exp_of(row[j] - highest);
    sums[i] = tree_of_keys().sum(std::span<const T>(row, block.keys));
    log_sum_exp[i] = highest + std::log(sums[i]);
  }
  block.sum_over_keys(scores, block.in.value, output);
  for (std::size_t i = 0; i < count; ++i) {
    if (sums[i] > T(0)) scale_row(rows.data + i * rows.stride, block.dim(), T(1) / sums[i]);
  }
}

/// Gradients of the first keys and values of a head; those behind are 0.
template <class T>
struct KeyGradients {
  std::vector<T> d_key;
  std::vector<T> d_value;
};

struct AddKeyGradients {
  template <class T>
  static std::vector<T> sum(std::vector<T> left, std::vector<T> right) {
    if (left.size() < right.size()) std::swap(left, right);  // a + b and b + a are the same bits
    add(right.size(), left.data(), right.data(), left.data());
    return left;
  }
  template <class T>
  KeyGradients<T> operator()(KeyGradients<T> left, KeyGradients<T> right) const {
    return {sum(std::move(left.d_key), std::move(right.d_key)),
            sum(std::move(left.d_value), std::move(right.d_value))};
  }
};

/// What the backward pass reads, and where the queries' gradients go.
template <class T>
struct Differentiated {
  const T* d_output;
  const T* output;
  const T* log_sum_exp;
  T* d_query;
};

/// Scores to probabilities, and their gradients through the softmax.
template <class T>
void differentiate_rows(const Block<T>& block, const Differentiated<T>& of,
                        std::vector<T>& probabilities, std::vector<T>& d_scores) {
  const T factor = static_cast<T>(block.in.options->scale);
  for (std::size_t i = 0; i < block.queries.size(); ++i) {
    T* const p = probabilities.data() + i * block.keys;
    T* const ds = d_scores.data() + i * block.keys;
    const Range seen = block.seen_by(block.queries.begin + i);
    clear_outside(p, block.keys, seen);
    clear_outside(ds, block.keys, seen);
    const T shift = of.log_sum_exp[block.head.row + block.queries.begin + i];
    const T delta =
        dot(block.at_queries(of.d_output).data + i * block.head.query_stride,
            block.at_queries(of.output).data + i * block.head.query_stride, block.dim());
#pragma omp simd
    for (std::size_t j = seen.begin; j < seen.end; ++j) {
      p[j] = exp_of(p[j] - shift);
      ds[j] = p[j] * (ds[j] - delta) * factor;
    }
  }
}

/// A leaf of the queries of all heads that share a key.
template <class T>
KeyGradients<T> gradients_of_leaf(const AttentionOperands<T>& in, const Differentiated<T>& of,
                                  std::span<const HeadLayout> heads, Range queries,
                                  std::vector<T>& probabilities, std::vector<T>& d_scores) {
  KeyGradients<T> node;
  for (const HeadLayout& head : heads) {
    const Block<T> block(in, head, queries);
    if (block.keys == 0) {
      const MatrixView<T> rows = block.at_queries(of.d_query);
      for (std::size_t i = 0; i < queries.size(); ++i) {
        std::fill_n(rows.data + i * rows.stride, block.dim(), T(0));
      }
      continue;
    }
    const Write write = node.d_key.empty() ? Write::kOverwrite : Write::kAccumulate;
    node.d_key.resize(block.keys * block.dim());
    node.d_value.resize(block.keys * block.dim());
    block.scores(probabilities);
    block.pairs(block.at_queries(of.d_output), block.at_keys(in.value), d_scores);
    differentiate_rows(block, of, probabilities, d_scores);
    block.sum_over_queries(probabilities, of.d_output, write, node.d_value);
    block.sum_over_queries(d_scores, in.query, write, node.d_key);
    block.sum_over_keys(d_scores, in.key, of.d_query);
  }
  return node;
}

template <class T>
void put_rows(const HeadLayout& head, std::size_t dim, const std::vector<T>& rows, T* into) {
  for (std::size_t i = 0; i * dim < rows.size(); ++i) {
    std::copy_n(rows.data() + i * dim, dim, into + head.key + i * head.key_stride);
  }
}

}  // namespace

template <class T>
void tree_attention(const AttentionOperands<T>& in, const Device&, T* output, T* log_sum_exp) {
  const AttentionExtents& e = in.extents;
  std::vector<T> scores;
  for (std::size_t b = 0; b < e.batch; ++b) {
    for (std::size_t h = 0; h < e.heads; ++h) {
      throw_if_interrupted();
      const HeadLayout head(e, b, h);
      for (std::size_t q = 0; q < e.query_seq; q += kQueryBlock) {
        const Block<T> block(in, head, {q, std::min(q + kQueryBlock, e.query_seq)});
        attend(block, scores, output, log_sum_exp + head.row + q);
      }
    }
  }
}

template <class T>
void tree_attention_backward(const AttentionOperands<T>& in, const Device&, const T* d_output,
                             const T* output, const T* log_sum_exp, T* d_query, T* d_key,
                             T* d_value) {
  const AttentionExtents& e = in.extents;
  if (e.query_seq == 0) return;
  const Differentiated<T> of{d_output, output, log_sum_exp, d_query};
  const std::size_t leaf = SumTree::of_axis(e.query_seq).leaf();
  const std::size_t per_key = e.heads / e.kv_heads;
  std::vector<T> probabilities;
  std::vector<T> d_scores;
  for (std::size_t b = 0; b < e.batch; ++b) {
    for (std::size_t kv = 0; kv < e.kv_heads; ++kv) {
      throw_if_interrupted();
      std::vector<HeadLayout> heads;
      for (std::size_t h = 0; h < per_key; ++h) heads.emplace_back(e, b, kv * per_key + h);
      NodeCounter<KeyGradients<T>, AddKeyGradients> nodes{AddKeyGradients()};
      for (std::size_t q = 0; q < e.query_seq; q += leaf) {
        nodes.add(gradients_of_leaf<T>(in, of, heads, {q, q + leaf}, probabilities, d_scores));
      }
      const KeyGradients<T> sum = nodes.take();
      put_rows(heads.front(), e.head_dim, sum.d_key, d_key);
      put_rows(heads.front(), e.head_dim, sum.d_value, d_value);
    }
  }
}

template void tree_attention(const AttentionOperands<float>&, const Device&, float*, float*);
template void tree_attention(const AttentionOperands<double>&, const Device&, double*, double*);
template void tree_attention_backward(const AttentionOperands<float>&, const Device&, const float*,
                                      const float*, const float*, float*, float*, float*);
template void tree_attention_backward(const AttentionOperands<double>&, const Device&,
                                      const double*, const double*, const double*, double*, double*,
                                      double*);

}  // namespace ultra::ops::cpu
