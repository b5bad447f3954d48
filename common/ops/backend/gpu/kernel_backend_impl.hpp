#pragma once
/// @file
/// What KernelBackend does, for the sources that instantiate it.

#include "common/ops/backend/gpu/attention_ways.hpp"
#include "common/ops/backend/gpu/element_ways.hpp"
#include "common/ops/backend/gpu/kernel_backend.hpp"
#include "common/ops/backend/gpu/matmul_ways.hpp"
#include "common/ops/backend/gpu/operands.hpp"
#include "kernels/plain/elementwise.hpp"
#include "kernels/plain/rows.hpp"
#include "kernels/plain/sums.hpp"

namespace ultra::ops::gpu {

template <simt::Side side>
void KernelBackend<side>::matmul(const Tensor& out, const Tensor& a, Transpose transpose_a,
                                 const Tensor& b, Transpose transpose_b, Write write) const {
  if (out.numel() == 0) return;
  multiply<side>({out, a, transpose_a, b, transpose_b, write});
}

template <simt::Side side>
void KernelBackend<side>::add(const Tensor& out, const Tensor& a, const Tensor& b) const {
  const auto launched = launch("add", {a, b}, {out});
  plain::add<side>(target(out), source(a), source(b), out.numel(), launched.queue());
}

template <simt::Side side>
void KernelBackend<side>::scale(const Tensor& a, double factor) const {
  const auto launched = launch("scale", {a}, {a});
  plain::scale<side>(target(a), factor, a.numel(), launched.queue());
}

template <simt::Side side>
double KernelBackend<side>::sum_of_squares(const Tensor& x) const {
  const Tensor sum = Tensor::empty(x.device(), {1}, DType::kF64);
  sum_of_squares_into(sum, x, Write::kOverwrite);
  return sum.to_vector().front();
}

template <simt::Side side>
void KernelBackend<side>::sum_of_squares_into(const Tensor& sum, const Tensor& x,
                                              Write write) const {
  const Tensor partials = Tensor::empty(x.device(), {plain::partial_sums(x.numel())}, DType::kF64);
  const auto launched = launch("sum_of_squares", {x}, {sum, partials});
  plain::sum_of_squares<side>(static_cast<double*>(sum.address()), source(x), x.numel(),
                              static_cast<double*>(partials.address()), write_of(write),
                              launched.queue());
}

template <simt::Side side>
void KernelBackend<side>::rms_norm(const Tensor& y, const Tensor& reciprocal_rms, const Tensor& x,
                                   const Tensor& weight, double epsilon) const {
  const auto launched = launch("rms_norm", {x, weight}, {y, reciprocal_rms});
  plain::rms_norm<side>({.rows = reciprocal_rms.numel(),
                         .hidden = x.size(-1),
                         .x = source(x),
                         .weight = source(weight),
                         .epsilon = epsilon,
                         .y = target(y),
                         .reciprocal_rms = target(reciprocal_rms)},
                        launched.queue());
}

template <simt::Side side>
void KernelBackend<side>::rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, Write write,
                                            const Tensor& d_y, const Tensor& x,
                                            const Tensor& weight,
                                            const Tensor& reciprocal_rms) const {
  norm_backward<side>({d_x, d_weight, write, d_y, x, weight, reciprocal_rms});
}

template <simt::Side side>
void KernelBackend<side>::rope(const Tensor& x, const RopeTable& table,
                               std::span<const std::int32_t> positions, Rotation rotation) const {
  const DevicePositions of_rows(x.device(), positions);
  const auto launched = launch("rope", {x, table.cosines(), table.sines(), of_rows.list()}, {x});
  plain::rope<side>({.batch = x.size(0),
                     .seq = x.size(1),
                     .heads = x.size(2),
                     .half = x.size(3) / 2,
                     .x = target(x),
                     .cosines = source(table.cosines()),
                     .sines = source(table.sines()),
                     .sign = rotation == Rotation::kForward ? 1 : -1,
                     .positions = of_rows.get()},
                    launched.queue());
}

template <simt::Side side>
void KernelBackend<side>::attention(const AttentionResult& result, const Tensor& query,
                                    const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) const {
  attend<side>(result, {query, key, value, options});
}

template <simt::Side side>
void KernelBackend<side>::attention_backward(const AttentionGradients& gradients,
                                             const Tensor& d_output, const Tensor& query,
                                             const Tensor& key, const Tensor& value,
                                             const Tensor& output, const Tensor& log_sum_exp,
                                             const AttentionOptions& options) const {
  differentiate<side>(gradients, {query, key, value, options}, {d_output, output, log_sum_exp});
}

template <simt::Side side>
void KernelBackend<side>::swiglu(const Tensor& product, const Tensor& gate,
                                 const Tensor& up) const {
  activate<side>(product, gate, up);
}

template <simt::Side side>
void KernelBackend<side>::swiglu_backward(const Tensor& d_gate, const Tensor& d_up,
                                          const Tensor& d_product, const Tensor& gate,
                                          const Tensor& up) const {
  activate_backward<side>(d_gate, d_up, d_product, gate, up);
}

/// @brief The sizes of a look-up in a part of a table.
[[nodiscard]] inline plain::Embedding look_up_of(const Tensor& part, const Tensor& tokens,
                                                 std::size_t first_token) {
  return {.tokens = tokens.numel(),
          .hidden = part.size(1),
          .rows = part.size(0),
          .first_token = first_token,
          .ids = integers(tokens)};
}

template <simt::Side side>
void KernelBackend<side>::embedding(const Tensor& out, const Tensor& part, const Tensor& tokens,
                                    std::size_t first_token) const {
  const auto launched = launch("embedding", {part, tokens}, {out});
  plain::embedding<side>(look_up_of(part, tokens, first_token), target(out), source(part),
                         launched.queue());
}

template <simt::Side side>
void KernelBackend<side>::embedding_backward(const Tensor& d_part, const Tensor& d_output,
                                             const Tensor& tokens, std::size_t first_token) const {
  const Tensor scratch = Tensor::empty(d_part.device(), {2 * tokens.numel()}, DType::kI32);
  const auto launched = launch("embedding_backward", {d_output, tokens, d_part}, {d_part, scratch});
  plain::embedding_backward<side>(look_up_of(d_part, tokens, first_token), target(d_part),
                                  source(d_output), static_cast<std::int32_t*>(scratch.address()),
                                  launched.queue());
}

template <simt::Side side>
double KernelBackend<side>::cross_entropy(const Tensor& logits, const Tensor& targets,
                                          double normalizer) const {
  const Tensor loss = Tensor::empty(logits.device(), {1}, DType::kF64);
  cross_entropy_into(loss, logits, targets, normalizer, Write::kOverwrite);
  return loss.to_vector().front();
}

template <simt::Side side>
void KernelBackend<side>::cross_entropy_into(const Tensor& loss, const Tensor& logits,
                                             const Tensor& targets, double normalizer,
                                             Write write) const {
  const Tensor scratch = Tensor::empty(logits.device(), {targets.numel()}, DType::kF64);
  const auto launched = launch("cross_entropy", {logits, targets}, {logits, loss, scratch});
  plain::cross_entropy<side>({.rows = targets.numel(),
                              .vocab = logits.size(-1),
                              .logits = target(logits),
                              .targets = integers(targets),
                              .normalizer = normalizer,
                              .loss = static_cast<double*>(loss.address()),
                              .write = write_of(write),
                              .scratch = static_cast<double*>(scratch.address())},
                             launched.queue());
}

template <simt::Side side>
void KernelBackend<side>::adamw(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                                const Tensor& second_moment, const AdamWStep& constants) const {
  const auto launched = launch("adamw", {value, grad, first_moment, second_moment},
                               {value, first_moment, second_moment});
  plain::adamw<side>({.value = target(value),
                      .grad = source(grad),
                      .first_moment = target(first_moment),
                      .second_moment = target(second_moment),
                      .learning_rate = constants.learning_rate,
                      .beta1 = constants.beta1,
                      .beta2 = constants.beta2,
                      .epsilon = constants.epsilon,
                      .weight_decay = constants.weight_decay,
                      .gradient_scale = constants.gradient_scale,
                      .step = constants.step},
                     value.numel(), launched.queue());
}

}  // namespace ultra::ops::gpu
