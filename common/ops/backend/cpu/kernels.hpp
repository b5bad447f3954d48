#pragma once
/// @file
/// The CPU loops behind the backend, one template per operation, on plain pointers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/ops/adamw.hpp"
#include "common/ops/attention.hpp"
#include "common/ops/backend/cpu/gemm.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/rope.hpp"

namespace ultra::ops::cpu {

/// @brief Extents of an attention call.
struct AttentionExtents {
  std::size_t batch;      ///< sequences
  std::size_t query_seq;  ///< queries per sequence
  std::size_t key_seq;    ///< keys per sequence
  std::size_t heads;      ///< query heads
  std::size_t kv_heads;   ///< key/value heads; divides heads
  std::size_t head_dim;   ///< elements per head
};

/// The products of blocks: gemm(), or another with its parameters.
template <class T>
using BlockProduct = void (*)(Transpose ta, Transpose tb, std::size_t m, std::size_t n,
                              std::size_t k, T alpha, MatrixView<const T> a, MatrixView<const T> b,
                              T beta, MatrixView<T> c);

/// @brief Operands of the attention loops; see ops::attention for the shapes.
template <class T>
struct AttentionOperands {
  AttentionExtents extents;         ///< sizes
  const T* query;                   ///< [batch, query_seq, heads, head_dim]
  const T* key;                     ///< [batch, key_seq, kv_heads, head_dim]
  const T* value;                   ///< [batch, key_seq, kv_heads, head_dim]
  const AttentionOptions* options;  ///< mask, scale and positions
};

/// @brief The operands in tensors.
template <class T>
AttentionOperands<T> attention_operands(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttentionOptions& options) {
  return {.extents = {.batch = query.size(0),
                      .query_seq = query.size(1),
                      .key_seq = key.size(1),
                      .heads = query.size(2),
                      .kv_heads = key.size(2),
                      .head_dim = query.size(3)},
          .query = query.data<T>(),
          .key = key.data<T>(),
          .value = value.data<T>(),
          .options = &options};
}

/// @brief The row of a token in a part of a table; nothing when another part has it.
inline std::optional<std::size_t> row_of(std::int32_t token, std::size_t first_token,
                                         std::size_t rows) {
  const auto id = static_cast<std::size_t>(token);
  if (id < first_token || id - first_token >= rows) return {};
  return id - first_token;
}

/// @brief Elements between the starts of neighbouring rows, as BLAS wants it: at least a row's length.
/// The stride of a dimension of one row, or of an empty one, may be anything.
inline std::size_t row_stride(const Tensor& matrix) {
  return std::max({matrix.strides()[0], matrix.size(1), std::size_t{1}});
}

/// @brief Forward pass; see ops::attention.
template <class T>
void attention(const AttentionOperands<T>& in, const Device& device, T* output, T* log_sum_exp);

/// @brief Backward pass; the three gradients are zero on entry. See ops::attention_backward.
template <class T>
void attention_backward(const AttentionOperands<T>& in, const Device& device, const T* d_output,
                        const T* output, const T* log_sum_exp, T* d_query, T* d_key, T* d_value);

/// @brief y = x r w per row and r = 1 / rms.
template <class T>
void rms_norm(std::size_t rows, std::size_t hidden, const T* x, const T* weight, T epsilon, T* y,
              T* reciprocal_rms);

/// @brief See ops::rms_norm_backward; d_weight is added to.
template <class T>
void rms_norm_backward(std::size_t rows, std::size_t hidden, const T* d_y, const T* x,
                       const T* weight, const T* reciprocal_rms, T* d_x, T* d_weight);

/// @brief Rotates [batch, seq, heads, 2 half] in place; `sign` is +1 forward, -1 backward.
template <class T>
void rope(std::size_t batch, std::size_t heads, std::size_t half,
          std::span<const std::int32_t> positions, const T* cosines, const T* sines, T sign, T* x);

/// @brief product = silu(gate) up.
template <class T>
void swiglu(std::size_t count, const T* gate, const T* up, T* product);

/// @brief Both gradients of swiglu in one pass.
template <class T>
void swiglu_backward(std::size_t count, const T* d_product, const T* gate, const T* up, T* d_gate,
                     T* d_up);

/// @brief See ops::cross_entropy_into_gradient; returns the loss divided by the normaliser.
template <class T>
double cross_entropy(std::size_t rows, std::size_t vocab, T* logits, const std::int32_t* targets,
                     double normalizer, double z_loss);

/// @brief out = a + b.
template <class T>
void add(std::size_t count, const T* a, const T* b, T* out);

/// @brief a *= factor.
template <class T>
void scale(std::size_t count, T factor, T* a);

/// @brief Sum of squares in f64.
template <class T>
double sum_of_squares(std::size_t count, const T* x);

/// @brief See ops::adamw_into.
template <class T>
void adamw(std::size_t count, const AdamWStep& constants, T* value, const T* grad, T* first_moment,
           T* second_moment);

}  // namespace ultra::ops::cpu
