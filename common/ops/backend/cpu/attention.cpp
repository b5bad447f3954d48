/// Blocks of queries against blocks of keys. Both passes hold one block of scores (and in backward
/// one of their gradients) at a time; a block of queries begins at the first key that one of them
/// sees and stops at the last, so causal attention costs little more than half of full attention.

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/interrupt.hpp"
#include "common/ops/backend/cpu/attention_rows.hpp"
#include "common/ops/backend/cpu/gemm.hpp"
#include "common/ops/backend/cpu/kernels.hpp"
#include "common/ops/backend/cpu/vector_math.hpp"

namespace ultra::ops::cpu {
namespace {

constexpr std::size_t kQueryBlock = 64;
constexpr std::size_t kKeyBlock = 512;

/// The keys that queries [first, first + count) see, and those between.
Range seen_keys(const AttentionOptions& options, const HeadLayout& head, std::size_t first,
                std::size_t count) {
  const Range of_first = seen_keys(options, head, first);
  return {of_first.begin, seen_keys(options, head, first + count - 1).end};
}

/// What a query sees of a block of keys, counted from its first.
Range seen_in_block(const AttentionOptions& options, const HeadLayout& head, std::size_t query,
                    Range block) {
  const Range seen = seen_keys(options, head, query);
  return {std::clamp(seen.begin, block.begin, block.end) - block.begin,
          std::clamp(seen.end, block.begin, block.end) - block.begin};
}

/// Replaces x by exp(x - shift) and returns the sum.
template <class T>
T exponentiate(T* x, std::size_t count, T shift) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = exp_of(x[i] - shift);
    sum += x[i];
  }
  return sum;
}

/// One head's forward pass over a block of queries.
template <class T>
class QueryBlockForward {
 public:
  QueryBlockForward(const AttentionOperands<T>& in, const HeadLayout& head, std::size_t first,
                    T* scores, T* output, T* log_sum_exp)
      : in_(in),
        head_(head),
        first_(first),
        count_(std::min(kQueryBlock, in.extents.query_seq - first)),
        scores_(scores),
        output_(output + head.query + first * head.query_stride),
        log_sum_exp_(log_sum_exp + head.row + first) {
    std::fill_n(highest_, count_, -std::numeric_limits<T>::infinity());
    std::fill_n(sum_, count_, T(0));
  }

  void run() {
    const Range seen = seen_keys(*in_.options, head_, first_, count_);
    for (std::size_t k = seen.begin; k < seen.end; k += kKeyBlock) {
      add_keys(k, std::min(kKeyBlock, seen.end - k), k == seen.begin);
    }
    finish(seen.size() > 0);
  }

 private:
  void add_keys(std::size_t first_key, std::size_t keys, bool is_first) {
    const std::size_t d = in_.extents.head_dim;
    const std::size_t key_offset = head_.key + first_key * head_.key_stride;
    gemm(Transpose::kNo, Transpose::kYes, count_, keys, d, static_cast<T>(in_.options->scale),
         MatrixView<const T>{in_.query + head_.query + first_ * head_.query_stride,
                             head_.query_stride},
         MatrixView<const T>{in_.key + key_offset, head_.key_stride}, T(0),
         MatrixView<T>{scores_, keys});
    for (std::size_t i = 0; i < count_; ++i) softmax_row(i, first_key, keys, is_first);
    gemm(Transpose::kNo, Transpose::kNo, count_, d, keys, T(1), MatrixView<const T>{scores_, keys},
         MatrixView<const T>{in_.value + key_offset, head_.key_stride}, is_first ? T(0) : T(1),
         MatrixView<T>{output_, head_.query_stride});
  }

  /// Turns a row of scores into probabilities relative to the row's highest score so far, and
  /// rescales what earlier blocks of keys have left when that highest score rises.
  void softmax_row(std::size_t i, std::size_t first_key, std::size_t keys, bool is_first) {
    T* row = scores_ + i * keys;
    const Range seen =
        seen_in_block(*in_.options, head_, first_ + i, {first_key, first_key + keys});
    clear_outside(row, keys, seen);
    if (seen.size() == 0) return;
    const T before = highest_[i];
    highest_[i] = std::max(before, largest(row + seen.begin, seen.size()));
    const T sum = exponentiate(row + seen.begin, seen.size(), highest_[i]);
    const T rescale = is_first ? T(0) : std::exp(before - highest_[i]);
    if (!is_first) {
      scale_row(output_ + i * head_.query_stride, in_.extents.head_dim, rescale);
    }
    sum_[i] = sum_[i] * rescale + sum;
  }

  void finish(bool any_key) {
    for (std::size_t i = 0; i < count_; ++i) {
      T* row = output_ + i * head_.query_stride;
      if (!any_key) std::fill_n(row, in_.extents.head_dim, T(0));
      if (sum_[i] > T(0)) scale_row(row, in_.extents.head_dim, T(1) / sum_[i]);
      log_sum_exp_[i] = highest_[i] + std::log(sum_[i]);
    }
  }

  const AttentionOperands<T>& in_;
  const HeadLayout& head_;
  std::size_t first_;
  std::size_t count_;
  T* scores_;
  T* output_;
  T* log_sum_exp_;
  T highest_[kQueryBlock];
  T sum_[kQueryBlock];
};

/// One head's backward pass over a block of queries: adds to d_query, d_key and d_value.
template <class T>
class QueryBlockBackward {
 public:
  struct Gradients {
    const T* d_output;
    const T* output;
    const T* log_sum_exp;
    T* d_query;
    T* d_key;
    T* d_value;
  };

  QueryBlockBackward(const AttentionOperands<T>& in, const Gradients& g, const HeadLayout& head,
                     std::size_t first, T* probabilities, T* d_scores)
      : in_(in),
        g_(g),
        head_(head),
        first_(first),
        count_(std::min(kQueryBlock, in.extents.query_seq - first)),
        query_offset_(head.query + first * head.query_stride),
        probabilities_(probabilities),
        d_scores_(d_scores) {
    for (std::size_t i = 0; i < count_; ++i) {
      const std::size_t row = query_offset_ + i * head.query_stride;
      delta_[i] = dot(g.d_output + row, g.output + row, in.extents.head_dim);
    }
  }

  void run() {
    const Range seen = seen_keys(*in_.options, head_, first_, count_);
    for (std::size_t k = seen.begin; k < seen.end; k += kKeyBlock) {
      add_keys(k, std::min(kKeyBlock, seen.end - k));
    }
  }

 private:
  void add_keys(std::size_t first_key, std::size_t keys) {
    const std::size_t d = in_.extents.head_dim;
    const std::size_t key_offset = head_.key + first_key * head_.key_stride;
    const MatrixView<const T> query{in_.query + query_offset_, head_.query_stride};
    const MatrixView<const T> key{in_.key + key_offset, head_.key_stride};
    const MatrixView<const T> value{in_.value + key_offset, head_.key_stride};
    const MatrixView<const T> d_output{g_.d_output + query_offset_, head_.query_stride};
    const MatrixView<const T> probabilities{probabilities_, keys};
    const MatrixView<const T> d_scores{d_scores_, keys};

    gemm(Transpose::kNo, Transpose::kYes, count_, keys, d, static_cast<T>(in_.options->scale),
         query, key, T(0), MatrixView<T>{probabilities_, keys});
    gemm(Transpose::kNo, Transpose::kYes, count_, keys, d, T(1), d_output, value, T(0),
         MatrixView<T>{d_scores_, keys});
    for (std::size_t i = 0; i < count_; ++i) differentiate_row(i, first_key, keys);
    gemm(Transpose::kYes, Transpose::kNo, keys, d, count_, T(1), probabilities, d_output, T(1),
         MatrixView<T>{g_.d_value + key_offset, head_.key_stride});
    gemm(Transpose::kYes, Transpose::kNo, keys, d, count_, T(1), d_scores, query, T(1),
         MatrixView<T>{g_.d_key + key_offset, head_.key_stride});
    gemm(Transpose::kNo, Transpose::kNo, count_, d, keys, T(1), d_scores, key, T(1),
         MatrixView<T>{g_.d_query + query_offset_, head_.query_stride});
  }

  /// Scores to probabilities, and their gradients through the softmax.
  void differentiate_row(std::size_t i, std::size_t first_key, std::size_t keys) {
    T* p = probabilities_ + i * keys;
    T* ds = d_scores_ + i * keys;
    const Range seen =
        seen_in_block(*in_.options, head_, first_ + i, {first_key, first_key + keys});
    clear_outside(p, keys, seen);
    clear_outside(ds, keys, seen);
    const T shift = g_.log_sum_exp[head_.row + first_ + i];
    const T delta = delta_[i];
    const T scale = static_cast<T>(in_.options->scale);
#pragma omp simd
    for (std::size_t j = seen.begin; j < seen.end; ++j) {
      p[j] = exp_of(p[j] - shift);
      ds[j] = p[j] * (ds[j] - delta) * scale;
    }
  }

  const AttentionOperands<T>& in_;
  const Gradients& g_;
  const HeadLayout& head_;
  std::size_t first_;
  std::size_t count_;
  std::size_t query_offset_;
  T* probabilities_;
  T* d_scores_;
  T delta_[kQueryBlock];
};

template <class T>
Tensor score_block(const Device& device, const AttentionExtents& e) {
  return Tensor::empty(device, {kQueryBlock, std::min(kKeyBlock, e.key_seq)}, dtype_of<T>());
}

}  // namespace

template <class T>
void attention(const AttentionOperands<T>& in, const Device& device, T* output, T* log_sum_exp) {
  const AttentionExtents& e = in.extents;
  const Tensor scores = score_block<T>(device, e);
  for (std::size_t b = 0; b < e.batch; ++b) {
    for (std::size_t h = 0; h < e.heads; ++h) {
      throw_if_interrupted();  // a head of a long sequence takes as long as a large product
      const HeadLayout head(e, b, h);
      for (std::size_t q = 0; q < e.query_seq; q += kQueryBlock) {
        QueryBlockForward<T>(in, head, q, scores.data<T>(), output, log_sum_exp).run();
      }
    }
  }
}

template <class T>
void attention_backward(const AttentionOperands<T>& in, const Device& device, const T* d_output,
                        const T* output, const T* log_sum_exp, T* d_query, T* d_key, T* d_value) {
  const AttentionExtents& e = in.extents;
  const Tensor probabilities = score_block<T>(device, e);
  const Tensor d_scores = score_block<T>(device, e);
  const typename QueryBlockBackward<T>::Gradients gradients{d_output, output, log_sum_exp,
                                                            d_query,  d_key,  d_value};
  for (std::size_t b = 0; b < e.batch; ++b) {
    for (std::size_t h = 0; h < e.heads; ++h) {
      throw_if_interrupted();  // a head of a long sequence takes as long as a large product
      const HeadLayout head(e, b, h);
      for (std::size_t q = 0; q < e.query_seq; q += kQueryBlock) {
        QueryBlockBackward<T>(in, gradients, head, q, probabilities.data<T>(), d_scores.data<T>())
            .run();
      }
    }
  }
}

template void attention(const AttentionOperands<float>&, const Device&, float*, float*);
template void attention(const AttentionOperands<double>&, const Device&, double*, double*);
template void attention_backward(const AttentionOperands<float>&, const Device&, const float*,
                                 const float*, const float*, float*, float*, float*);
template void attention_backward(const AttentionOperands<double>&, const Device&, const double*,
                                 const double*, const double*, double*, double*, double*);

}  // namespace ultra::ops::cpu
