#pragma once
/// @file
/// Rows of attention's scores: where they stand, which keys they are of, and what is done with one.

#include <algorithm>
#include <cstddef>
#include <limits>

#include "common/ops/backend/cpu/kernels.hpp"

namespace ultra::ops::cpu {

/// @brief Element offsets and row strides of one head inside the [batch, seq, heads, head_dim] tensors.
struct HeadLayout {
  /// @brief One head of one sequence.
  HeadLayout(const AttentionExtents& e, std::size_t batch, std::size_t head)
      : query_stride(e.heads * e.head_dim),
        key_stride(e.kv_heads * e.head_dim),
        query(batch * e.query_seq * query_stride + head * e.head_dim),
        key(batch * e.key_seq * key_stride + head / (e.heads / e.kv_heads) * e.head_dim),
        row((batch * e.heads + head) * e.query_seq),
        first_query(batch * e.query_seq) {}

  std::size_t query_stride;  ///< of queries, outputs and their gradients
  std::size_t key_stride;    ///< of keys, values and their gradients
  std::size_t query;         ///< first element
  std::size_t key;           ///< first element
  std::size_t row;           ///< of the log-sum-exp
  std::size_t first_query;   ///< of the sequence, among those of the batch
};

/// @brief The keys that a query of a sequence sees: never an end before the beginning.
inline Range seen_keys(const AttentionOptions& options, const HeadLayout& head, std::size_t query) {
  const auto keys = options.key_positions;
  const auto index = [&](auto at) { return static_cast<std::size_t>(at - keys.begin()); };
  std::size_t end = keys.size();
  if (options.mask == Mask::kCausal) {
    end = index(std::upper_bound(keys.begin(), keys.end(), options.query_positions[query]));
  }
  if (options.first_seen.empty()) return {0, end};
  const std::int32_t first = options.first_seen[head.first_query + query];
  return {std::min(index(std::lower_bound(keys.begin(), keys.end(), first)), end), end};
}

/// @brief Zeros outside of a range of a row.
template <class T>
void clear_outside(T* row, std::size_t count, Range inside) {
  std::fill(row, row + inside.begin, T(0));
  std::fill(row + inside.end, row + count, T(0));
}

/// @brief The largest of some numbers.
template <class T>
T largest(const T* x, std::size_t count) {
  T highest = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : highest)
  for (std::size_t i = 0; i < count; ++i) highest = std::max(highest, x[i]);
  return highest;
}

/// @brief x *= factor.
template <class T>
void scale_row(T* x, std::size_t count, T factor) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) x[i] *= factor;
}

/// @brief The sum of products of two rows.
template <class T>
T dot(const T* a, const T* b, std::size_t count) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace ultra::ops::cpu
