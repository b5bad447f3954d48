#include "common/nn/layers/latent_heads.hpp"

#include "common/ops/elementwise.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "common/ops/sums/tree_sum.hpp"

namespace ultra::nn {
namespace {

using ops::Transpose;
using ops::Write;

/// Rows of one head, [batch seq, width]: a view of [batch, seq, heads, width].
Tensor matrix_of(const Tensor& x, std::size_t head, Range part) {
  const std::size_t begin = head * x.size(3);
  return x.view({x.size(0) * x.size(1), x.size(2) * x.size(3)})
      .slice(1, {begin + part.begin, begin + part.end});
}

Tensor matrix_of(const Tensor& x, std::size_t head) { return matrix_of(x, head, {0, x.size(3)}); }

Tensor with_width(const Tensor& x, std::size_t width) {
  return Tensor::empty(x.device(), x.shape().with(3, width), x.dtype());
}

/// The rows of a head's W_K in kv_b_proj, and of its W_V.
Range key_rows(std::size_t head, const LatentAttention& sizes) {
  const std::size_t begin = head * (sizes.qk_nope_head_dim + sizes.v_head_dim);
  return {begin, begin + sizes.qk_nope_head_dim};
}

Range value_rows(std::size_t head, const LatentAttention& sizes) {
  const std::size_t begin = key_rows(head, sizes).end;
  return {begin, begin + sizes.v_head_dim};
}

void copy_to_heads(const Tensor& to, const Tensor& from) {
  if (to.size(2) == from.size(2)) return to.copy_from(from);
  for (std::size_t head = 0; head < to.size(2); ++head) {
    to.slice(2, {head, head + 1}).copy_from(from);
  }
}

/// Calls fn with each part of a row, and the part of what is rotated, or is not, that stands there.
template <class Fn>
void for_each_part(const CoreRows& rows, const Fn& fn) {
  const std::size_t turned = rows.rotated / 2;
  const std::size_t half = rows.width / 2;
  const std::size_t others = half - turned;
  for (const std::size_t second : {0U, 1U}) {
    const std::size_t at = second * half;
    fn(true, Range{at, at + turned}, Range{second * turned, (second + 1) * turned});
    fn(false, Range{at + turned, at + half}, Range{second * others, (second + 1) * others});
  }
}

}  // namespace

void CoreRows::put(const Tensor& rows, const Tensor& unrotated, const Tensor& turned) const {
  for_each_part(*this, [&](bool rotates, Range at, Range part) {
    copy_to_heads(rows.slice(3, at), (rotates ? turned : unrotated).slice(3, part));
  });
}

void CoreRows::take(const Tensor& rows, const Tensor& unrotated, const Tensor& turned) const {
  for_each_part(*this, [&](bool rotates, Range at, Range part) {
    (rotates ? turned : unrotated).slice(3, part).copy_from(rows.slice(3, at));
  });
}

Tensor sum_of_heads(const Tensor& x) {
  const Shape shape{x.size(0), x.size(1), x.size(3)};
  if (ops::sums_by_trees(x.device())) return ops::tree_sum(x, 2).view(shape);
  const Tensor sum = Tensor::zeros(x.device(), {x.size(0), x.size(1), 1, x.size(3)},
                                   accumulation_dtype(x.dtype()));
  for (std::size_t head = 0; head < x.size(2); ++head) {
    ops::add_into(sum, x.slice(2, {head, head + 1}).contiguous());
  }
  return cast(sum, x.dtype()).view(shape);
}

// [region absorb]
Tensor HeadMatrices::absorb(const Tensor& query) const {
  const Tensor absorbed = with_width(query, sizes_.kv_lora_rank);
  for (std::size_t head = 0; head < query.size(2); ++head) {
    const Tensor key_matrix = weight_.value().slice(0, key_rows(head, sizes_));  // W_K
    ops::matmul_into(matrix_of(absorbed, head),
                     matrix_of(query, head, {0, sizes_.qk_nope_head_dim}), Transpose::kNo,
                     key_matrix, Transpose::kNo);
  }
  return absorbed;
}

Tensor HeadMatrices::values(const Tensor& latents) const {
  const Tensor values = with_width(latents, sizes_.v_head_dim);
  for (std::size_t head = 0; head < latents.size(2); ++head) {
    const Tensor value_matrix = weight_.value().slice(0, value_rows(head, sizes_));  // W_V
    ops::matmul_into(matrix_of(values, head), matrix_of(latents, head), Transpose::kNo,
                     value_matrix, Transpose::kYes);
  }
  return values;
}
// [/region]

Tensor HeadMatrices::absorb_backward(const Tensor& d_absorbed) const {
  const Tensor d_query = with_width(d_absorbed, sizes_.qk_nope_head_dim);
  for (std::size_t head = 0; head < d_absorbed.size(2); ++head) {
    ops::matmul_into(matrix_of(d_query, head), matrix_of(d_absorbed, head), Transpose::kNo,
                     weight_.value().slice(0, key_rows(head, sizes_)), Transpose::kYes);
  }
  return d_query;
}

Tensor HeadMatrices::values_backward(const Tensor& d_values) const {
  const Tensor d_latents = with_width(d_values, sizes_.kv_lora_rank);
  for (std::size_t head = 0; head < d_values.size(2); ++head) {
    ops::matmul_into(matrix_of(d_latents, head), matrix_of(d_values, head), Transpose::kNo,
                     weight_.value().slice(0, value_rows(head, sizes_)), Transpose::kNo);
  }
  return d_latents;
}

void HeadMatrices::add_gradients(const Tensor& query, const Tensor& d_absorbed,
                                 const Tensor& latents, const Tensor& d_values) const {
  for (const Tensor& each : {query, d_absorbed, latents, d_values}) weight_.keep_for_grad(each);
  weight_.add_grad([=, sizes = sizes_](const Tensor& grad, Write write) {
    for (std::size_t head = 0; head < query.size(2); ++head) {
      ops::matmul_into(grad.slice(0, key_rows(head, sizes)),
                       matrix_of(query, head, {0, sizes.qk_nope_head_dim}), Transpose::kYes,
                       matrix_of(d_absorbed, head), Transpose::kNo, write);
      ops::matmul_into(grad.slice(0, value_rows(head, sizes)), matrix_of(d_values, head),
                       Transpose::kYes, matrix_of(latents, head), Transpose::kNo, write);
    }
  });
}

}  // namespace ultra::nn
