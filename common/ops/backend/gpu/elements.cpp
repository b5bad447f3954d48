// Operations that go through memory once, element by element.

#include "common/base/numeric.hpp"
#include "common/ops/backend/gpu/kernel_backend.hpp"
#include "common/ops/backend/gpu/kernel_choice.hpp"
#include "common/ops/backend/gpu/operands.hpp"
#include "common/ops/sums/exact_sum.hpp"

namespace ultra::ops::gpu {

namespace {

/// The operands of the ladder's gradients of swiglu.
template <typename T>
kernels::swiglu_backward::ProblemOf<T> gradients_of(const Tensor& d_gate, const Tensor& d_up,
                                                    const Tensor& d_product, const Tensor& gate,
                                                    const Tensor& up) {
  return {.tokens = 1,
          .ffn = checked_cast<int>(gate.numel()),
          .d_product = elements<const T>(d_product),
          .gate = elements<const T>(gate),
          .up = elements<const T>(up),
          .d_gate = elements<T>(d_gate),
          .d_up = elements<T>(d_up)};
}

}  // namespace

void KernelBackend::add(const Tensor& out, const Tensor& a, const Tensor& b) const {
  const auto launched = launch("add", {a, b}, {out});
  launched.kernels().add(target(out), source(a), source(b), out.numel(), launched.queue());
}

void KernelBackend::scale(const Tensor& a, double factor) const {
  const auto launched = launch("scale", {a}, {a});
  launched.kernels().scale(target(a), factor, a.numel(), launched.queue());
}

double KernelBackend::sum_of_squares(const Tensor& x) const {
  const Tensor sum = Tensor::empty(x.device(), {1}, DType::kF64);
  sum_of_squares_into(sum, x, Write::kOverwrite);
  return sum.to_vector().front();
}

void KernelBackend::sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write) const {
  const Tensor partials =
      Tensor::empty(x.device(), {generic::partial_sums(x.numel())}, DType::kF64);
  const auto launched = launch("sum_of_squares", {x}, {sum, partials});
  launched.kernels().sum_of_squares(static_cast<double*>(sum.address()), source(x), x.numel(),
                                    static_cast<double*>(partials.address()), write_of(write),
                                    launched.queue());
}

std::size_t TreeKernelBackend::digits_of_sums() const { return ExactSum::kDigits; }

double TreeKernelBackend::sum_of_squares(const Tensor& x) const {
  const Tensor digits = Tensor::empty(x.device(), {ExactSum::kDigits}, DType::kF64);
  sum_of_squares_into(digits, x, Write::kOverwrite);
  return ExactSum(digits.to_vector()).value();
}

void TreeKernelBackend::sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write) const {
  const Tensor partials = partials_of_exact_sum(x.device(), x.numel());
  const auto launched = launch("sum_of_squares", {x}, {sum, partials});
  launched.kernels().exact_sum_of(elements<double>(sum), source(x), x.numel(),
                                  generic::Terms::kSquares, digits_in(partials), write_of(write),
                                  launched.queue());
}

void KernelBackend::swiglu(const Tensor& product, const Tensor& gate, const Tensor& up) const {
  const bool fits = ladder_fits_elements({product, gate, up});
  const auto launched = launch("swiglu", {gate, up}, {product});
  if (fits && gate.dtype() == DType::kF32) {
    launched.kernels().swiglu_f32({.tokens = 1,
                                   .ffn = checked_cast<int>(gate.numel()),
                                   .gate = elements<const float>(gate),
                                   .up = elements<const float>(up),
                                   .product = elements<float>(product),
                                   .activated = nullptr},
                                  launched.queue());
  } else if (fits && gate.dtype() == DType::kBF16) {
    launched.kernels().swiglu_bf16({.tokens = 1,
                                    .ffn = checked_cast<int>(gate.numel()),
                                    .gate = elements<const simt::bf16>(gate),
                                    .up = elements<const simt::bf16>(up),
                                    .product = elements<simt::bf16>(product)},
                                   launched.queue());
  } else {
    launched.kernels().swiglu(target(product), source(gate), source(up), gate.numel(),
                              launched.queue());
  }
}

void KernelBackend::swiglu_backward(const Tensor& d_gate, const Tensor& d_up,
                                    const Tensor& d_product, const Tensor& gate,
                                    const Tensor& up) const {
  const bool fits = ladder_fits_elements({d_gate, d_up, d_product, gate, up});
  const auto launched = launch("swiglu_backward", {d_product, gate, up}, {d_gate, d_up});
  if (fits && gate.dtype() == DType::kF32) {
    return launched.kernels().swiglu_backward_f32(
        gradients_of<float>(d_gate, d_up, d_product, gate, up), launched.queue());
  }
  if (fits && gate.dtype() == DType::kBF16) {
    return launched.kernels().swiglu_backward_bf16(
        gradients_of<simt::bf16>(d_gate, d_up, d_product, gate, up), launched.queue());
  }
  launched.kernels().swiglu_backward({.d_gate = target(d_gate),
                                      .d_up = target(d_up),
                                      .d_product = source(d_product),
                                      .gate = source(gate),
                                      .up = source(up)},
                                     gate.numel(), launched.queue());
}

void KernelBackend::adamw(std::span<const AdamWTensors> tensors, const AdamWStep& constants) const {
  std::vector<generic::AdamWTensor> operands;
  std::vector<ultra::gpu::Region> reads;
  std::vector<ultra::gpu::Region> writes;
  for (const AdamWTensors& of : tensors) {
    const bool rounds = of.rounded.defined();
    operands.push_back({.value = target(of.value),
                        .grad = source(of.grad),
                        .first_moment = target(of.first_moment),
                        .second_moment = target(of.second_moment),
                        .rounded = rounds ? target(of.rounded) : generic::Target{},
                        .count = of.value.numel(),
                        .decays = of.decays});
    for (const Tensor& each : {of.value, of.first_moment, of.second_moment}) {
      reads.push_back(region_of(each));
      writes.push_back(region_of(each));
    }
    reads.push_back(region_of(of.grad));
    if (rounds) writes.push_back(region_of(of.rounded));
  }
  const KernelLaunch launched(tensors.front().value.device(), "adamw", reads, writes);
  launched.kernels().adamw(operands.data(), operands.size(),
                           {.learning_rate = constants.learning_rate,
                            .beta1 = constants.beta1,
                            .beta2 = constants.beta2,
                            .epsilon = constants.epsilon,
                            .weight_decay = constants.weight_decay,
                            .gradient_scale = constants.gradient_scale,
                            .step = constants.step},
                           launched.queue());
}

}  // namespace ultra::ops::gpu
