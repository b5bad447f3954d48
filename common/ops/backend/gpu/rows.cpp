// Operations that work row by row: normalisation, rotation, look-up, cross entropy.

#include "common/base/numeric.hpp"
#include "common/ops/backend/gpu/kernel_backend.hpp"
#include "common/ops/backend/gpu/kernel_choice.hpp"
#include "common/ops/backend/gpu/operands.hpp"
#include "common/ops/partial_softmax.hpp"
#include "common/ops/sums/exact_sum.hpp"

namespace ultra::ops::gpu {
namespace {

/// The operands of rms_norm's gradients.
struct RmsNormGradients {
  const Tensor& d_x;             ///< [.., hidden], written
  const Tensor& d_weight;        ///< [hidden], written or added to
  Write write;                   ///< which of the two
  const Tensor& d_y;             ///< [.., hidden]
  const Tensor& x;               ///< [.., hidden]
  const Tensor& weight;          ///< [hidden]
  const Tensor& reciprocal_rms;  ///< [..]
};

/// The generic kernels' gradients of rms_norm.
void norm_backward_plainly(const RmsNormGradients& of) {
  const std::size_t rows = of.reciprocal_rms.numel();
  const std::size_t leaf = leaf_of(of.x.device(), rows);
  const Tensor scratch = Tensor::empty(
      of.x.device(), {generic::weight_parts(rows, leaf), of.x.size(-1)}, of.reciprocal_rms.dtype());
  const auto launched = launch("rms_norm_backward", {of.d_y, of.x, of.weight, of.reciprocal_rms},
                               {of.d_x, of.d_weight, scratch});
  launched.kernels().rms_norm_backward({.rows = rows,
                                        .hidden = of.x.size(-1),
                                        .d_y = source(of.d_y),
                                        .x = source(of.x),
                                        .weight = source(of.weight),
                                        .reciprocal_rms = source(of.reciprocal_rms),
                                        .d_x = target(of.d_x),
                                        .d_weight = target(of.d_weight),
                                        .write = write_of(of.write),
                                        .scratch = scratch.address(),
                                        .leaf = leaf},
                                       launched.queue());
}

/// What a ladder's kernel of rms_norm takes, without what is added before it.
template <typename Problem, typename T>
Problem norm_of(const Tensor& y, const Tensor& reciprocal_rms, const Tensor& x,
                const Tensor& weight, double epsilon) {
  return {.rows = checked_cast<int>(reciprocal_rms.numel()),
          .hidden = checked_cast<int>(x.size(-1)),
          .epsilon = static_cast<float>(epsilon),
          .x = elements<const T>(x),
          .residual = nullptr,
          .weight = elements<const T>(weight),
          .h = nullptr,
          .y = elements<T>(y),
          .reciprocal_rms = elements<float>(reciprocal_rms)};
}

/// The operands of the ladder's gradients of rms_norm.
template <typename T>
kernels::rms_norm_backward::ProblemOf<T> gradients_of(const RmsNormGradients& of,
                                                      const Tensor& d_weight,
                                                      const Tensor& partials) {
  return {.rows = checked_cast<int>(of.reciprocal_rms.numel()),
          .hidden = checked_cast<int>(of.x.size(-1)),
          .d_y = elements<const T>(of.d_y),
          .x = elements<const T>(of.x),
          .weight = elements<const T>(of.weight),
          .reciprocal_rms = elements<const float>(of.reciprocal_rms),
          .d_x = elements<T>(of.d_x),
          .d_weight = elements<float>(d_weight),
          .partial_d_weight = elements<float>(partials)};
}

/// The ladder's gradients of rms_norm, which overwrite.
void norm_backward_by_ladder(const RmsNormGradients& of, const Tensor& d_weight) {
  const int rows = checked_cast<int>(of.reciprocal_rms.numel());
  const Tensor partials = Tensor::empty(
      of.x.device(),
      {static_cast<std::size_t>(kernels::rms_norm_backward::partials_of(rows)), of.x.size(-1)},
      DType::kF32);
  const auto launched = launch("rms_norm_backward", {of.d_y, of.x, of.weight, of.reciprocal_rms},
                               {of.d_x, d_weight, partials});
  if (of.x.dtype() == DType::kBF16) {
    launched.kernels().rms_norm_backward_bf16(gradients_of<simt::bf16>(of, d_weight, partials),
                                              launched.queue());
  } else {
    launched.kernels().rms_norm_backward_f32(gradients_of<float>(of, d_weight, partials),
                                             launched.queue());
  }
}

/// The sizes of a look-up in a part of a table.
generic::Embedding look_up_of(const Tensor& part, const Tensor& tokens, std::size_t first_token) {
  return {.tokens = tokens.numel(),
          .hidden = part.size(1),
          .rows = part.size(0),
          .first_token = first_token,
          .ids = integers(tokens),
          .leaf = leaf_of(part.device(), tokens.numel())};
}

}  // namespace

void KernelBackend::rms_norm(const Tensor& y, const Tensor& reciprocal_rms, const Tensor& x,
                             const Tensor& weight, double epsilon) const {
  const bool fits = ladder_fits_rms_norm(y, x, weight);
  const auto launched = launch("rms_norm", {x, weight}, {y, reciprocal_rms});
  if (fits && x.dtype() == DType::kF32) {
    return launched.kernels().rms_norm_f32(
        norm_of<kernels::rms_norm::Problem, float>(y, reciprocal_rms, x, weight, epsilon),
        launched.queue());
  }
  if (fits) {
    return launched.kernels().rms_norm_bf16(
        norm_of<kernels::rms_norm_bf16::Problem, simt::bf16>(y, reciprocal_rms, x, weight, epsilon),
        launched.queue());
  }
  launched.kernels().rms_norm({.rows = reciprocal_rms.numel(),
                               .hidden = x.size(-1),
                               .x = source(x),
                               .weight = source(weight),
                               .epsilon = epsilon,
                               .y = target(y),
                               .reciprocal_rms = target(reciprocal_rms)},
                              launched.queue());
}

void KernelBackend::rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, Write write,
                                      const Tensor& d_y, const Tensor& x, const Tensor& weight,
                                      const Tensor& reciprocal_rms) const {
  const RmsNormGradients of{d_x, d_weight, write, d_y, x, weight, reciprocal_rms};
  if (!ladder_fits_rms_norm_backward(of.d_x, of.d_y, of.x, of.weight)) {
    return norm_backward_plainly(of);
  }
  if (of.write == Write::kOverwrite && d_weight.dtype() == DType::kF32 &&
      ladder_fits_elements({d_weight})) {
    return norm_backward_by_ladder(of, of.d_weight);
  }
  const Tensor own = Tensor::empty(x.device(), weight.shape(), DType::kF32);
  norm_backward_by_ladder(of, own);
  if (write == Write::kOverwrite && d_weight.dtype() == DType::kF32) {
    return d_weight.copy_from(own);
  }
  if (write == Write::kOverwrite) d_weight.fill(0.0);
  const auto launched = launch("rms_norm_backward_add", {own, d_weight}, {d_weight});
  launched.kernels().add(target(d_weight), source(d_weight), source(own), own.numel(),
                         launched.queue());
}

void KernelBackend::rope(const Tensor& x, const RopeTable& table,
                         std::span<const std::int32_t> positions, Rotation rotation) const {
  const DevicePositions of_rows(x.device(), positions);
  const auto launched = launch("rope", {x, table.cosines(), table.sines(), of_rows.list()}, {x});
  launched.kernels().rope({.batch = x.size(0),
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

void KernelBackend::embedding(const Tensor& out, const Tensor& part, const Tensor& tokens,
                              std::size_t first_token) const {
  const auto launched = launch("embedding", {part, tokens}, {out});
  launched.kernels().embedding(look_up_of(part, tokens, first_token), target(out), source(part),
                               launched.queue());
}

void KernelBackend::embedding_backward(const Tensor& d_part, const Tensor& d_output,
                                       const Tensor& tokens, std::size_t first_token) const {
  const Tensor scratch = Tensor::empty(d_part.device(), {2 * tokens.numel()}, DType::kI32);
  const auto launched = launch("embedding_backward", {d_output, tokens, d_part}, {d_part, scratch});
  launched.kernels().embedding_backward(
      look_up_of(d_part, tokens, first_token), target(d_part), source(d_output),
      static_cast<std::int32_t*>(scratch.address()), launched.queue());
}

double KernelBackend::cross_entropy(const Tensor& logits, const Tensor& targets, double normalizer,
                                    double z_loss) const {
  const Tensor loss = Tensor::empty(logits.device(), {1}, DType::kF64);
  cross_entropy_into(loss, logits, targets, normalizer, Write::kOverwrite, z_loss);
  return loss.to_vector().front();
}

void KernelBackend::cross_entropy_into(const Tensor& loss, const Tensor& logits,
                                       const Tensor& targets, double normalizer, Write write,
                                       double z_loss) const {
  ensure(z_loss == 0.0, "kernels have no z-loss");
  const Tensor scratch = Tensor::empty(logits.device(), {targets.numel()}, DType::kF64);
  const auto launched = launch("cross_entropy", {logits, targets}, {logits, loss, scratch});
  launched.kernels().cross_entropy({.rows = targets.numel(),
                                    .vocab = logits.size(-1),
                                    .logits = target(logits),
                                    .targets = integers(targets),
                                    .normalizer = normalizer,
                                    .loss = static_cast<double*>(loss.address()),
                                    .write = write_of(write),
                                    .scratch = static_cast<double*>(scratch.address())},
                                   launched.queue());
}

double TreeKernelBackend::cross_entropy(const Tensor& logits, const Tensor& targets,
                                        double normalizer, double z_loss) const {
  const Tensor loss = Tensor::empty(logits.device(), {ExactSum::kDigits}, DType::kF64);
  cross_entropy_into(loss, logits, targets, normalizer, Write::kOverwrite, z_loss);
  return ExactSum(loss.to_vector()).value();
}

void TreeKernelBackend::cross_entropy_into(const Tensor& loss, const Tensor& logits,
                                           const Tensor& targets, double normalizer, Write write,
                                           double z_loss) const {
  ensure(z_loss == 0.0, "sums by trees have no z-loss");
  cross_entropy_by_trees(loss, logits, targets, normalizer, write);
}

}  // namespace ultra::ops::gpu
