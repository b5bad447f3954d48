#pragma once
/// @file
/// The ways of operations that go through memory once, for the sources that instantiate KernelBackend.

#include "common/base/numeric.hpp"
#include "common/ops/backend/gpu/choose.hpp"
#include "common/ops/backend/gpu/operands.hpp"
#include "kernels/plain/elementwise.hpp"
#include "kernels/plain/rows.hpp"
#include "kernels/rms_norm_backward/rms_norm_backward.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "kernels/swiglu_backward/swiglu_backward.hpp"
#include "kernels/swiglu_bf16/swiglu_bf16.hpp"

namespace ultra::ops::gpu {

/// @brief See ops::swiglu.
template <simt::Side side>
void activate(const Tensor& product, const Tensor& gate, const Tensor& up) {
  const bool fits = ladder_fits_elements({product, gate, up});
  const auto launched = launch("swiglu", {gate, up}, {product});
  if (fits && gate.dtype() == DType::kF32) {
    kernels::swiglu::vectorised<side>({.tokens = 1,
                                       .ffn = checked_cast<int>(gate.numel()),
                                       .gate = elements<const float>(gate),
                                       .up = elements<const float>(up),
                                       .product = elements<float>(product),
                                       .activated = nullptr},
                                      launched.queue());
  } else if (fits && gate.dtype() == DType::kBF16) {
    kernels::swiglu_bf16::vectorised<side>({.tokens = 1,
                                            .ffn = checked_cast<int>(gate.numel()),
                                            .gate = elements<const simt::bf16>(gate),
                                            .up = elements<const simt::bf16>(up),
                                            .product = elements<simt::bf16>(product)},
                                           launched.queue());
  } else {
    plain::swiglu<side>(target(product), source(gate), source(up), gate.numel(), launched.queue());
  }
}

/// @brief See ops::swiglu_backward.
template <simt::Side side>
void activate_backward(const Tensor& d_gate, const Tensor& d_up, const Tensor& d_product,
                       const Tensor& gate, const Tensor& up) {
  const bool fits = ladder_fits_elements({d_gate, d_up, d_product, gate, up});
  const auto launched = launch("swiglu_backward", {d_product, gate, up}, {d_gate, d_up});
  if (fits && gate.dtype() == DType::kF32) {
    kernels::swiglu_backward::vectorised<side>({.tokens = 1,
                                                .ffn = checked_cast<int>(gate.numel()),
                                                .d_product = elements<const float>(d_product),
                                                .gate = elements<const float>(gate),
                                                .up = elements<const float>(up),
                                                .d_gate = elements<float>(d_gate),
                                                .d_up = elements<float>(d_up)},
                                               launched.queue());
    return;
  }
  plain::swiglu_backward<side>({.d_gate = target(d_gate),
                                .d_up = target(d_up),
                                .d_product = source(d_product),
                                .gate = source(gate),
                                .up = source(up)},
                               gate.numel(), launched.queue());
}

/// @brief The operands of rms_norm's gradients.
struct RmsNormGradients {
  const Tensor& d_x;             ///< [.., hidden], written
  const Tensor& d_weight;        ///< [hidden], written or added to
  Write write;                   ///< which of the two
  const Tensor& d_y;             ///< [.., hidden]
  const Tensor& x;               ///< [.., hidden]
  const Tensor& weight;          ///< [hidden]
  const Tensor& reciprocal_rms;  ///< [..]
};

/// @brief The plain kernels' gradients of rms_norm.
template <simt::Side side>
void norm_backward_plainly(const RmsNormGradients& of) {
  const std::size_t rows = of.reciprocal_rms.numel();
  const Tensor scratch = Tensor::empty(of.x.device(), {plain::weight_parts(rows), of.x.size(-1)},
                                       of.reciprocal_rms.dtype());
  const auto launched = launch("rms_norm_backward", {of.d_y, of.x, of.weight, of.reciprocal_rms},
                               {of.d_x, of.d_weight, scratch});
  plain::rms_norm_backward<side>({.rows = rows,
                                  .hidden = of.x.size(-1),
                                  .d_y = source(of.d_y),
                                  .x = source(of.x),
                                  .weight = source(of.weight),
                                  .reciprocal_rms = source(of.reciprocal_rms),
                                  .d_x = target(of.d_x),
                                  .d_weight = target(of.d_weight),
                                  .write = write_of(of.write),
                                  .scratch = scratch.address()},
                                 launched.queue());
}

/// @brief The ladder's gradients of rms_norm, which overwrite.
template <simt::Side side>
void norm_backward_by_ladder(const RmsNormGradients& of, const Tensor& d_weight) {
  const int rows = checked_cast<int>(of.reciprocal_rms.numel());
  const Tensor partials = Tensor::empty(
      of.x.device(),
      {static_cast<std::size_t>(kernels::rms_norm_backward::partials_of(rows)), of.x.size(-1)},
      DType::kF32);
  const auto launched = launch("rms_norm_backward", {of.d_y, of.x, of.weight, of.reciprocal_rms},
                               {of.d_x, d_weight, partials});
  kernels::rms_norm_backward::two_stages<side>(
      {.rows = rows,
       .hidden = checked_cast<int>(of.x.size(-1)),
       .d_y = elements<const float>(of.d_y),
       .x = elements<const float>(of.x),
       .weight = elements<const float>(of.weight),
       .reciprocal_rms = elements<const float>(of.reciprocal_rms),
       .d_x = elements<float>(of.d_x),
       .d_weight = elements<float>(d_weight),
       .partial_d_weight = elements<float>(partials)},
      launched.queue());
}

/// @brief See ops::rms_norm_backward.
template <simt::Side side>
void norm_backward(const RmsNormGradients& of) {
  if (!ladder_fits_rms_norm_backward(of.d_x, of.d_y, of.x, of.weight)) {
    return norm_backward_plainly<side>(of);
  }
  if (of.write == Write::kOverwrite && ladder_fits_elements({of.x, of.d_weight})) {
    return norm_backward_by_ladder<side>(of, of.d_weight);
  }
  const Tensor d_weight = Tensor::empty(of.x.device(), of.weight.shape(), DType::kF32);
  norm_backward_by_ladder<side>(of, d_weight);
  if (of.write == Write::kOverwrite) return of.d_weight.copy_from(d_weight);
  const auto launched = launch("rms_norm_backward_add", {d_weight, of.d_weight}, {of.d_weight});
  plain::add<side>(target(of.d_weight), source(of.d_weight), source(d_weight), d_weight.numel(),
                   launched.queue());
}

}  // namespace ultra::ops::gpu
