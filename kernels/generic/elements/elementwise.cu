// A thread for each element, or for four where four can be read at a time; f32 or f64 inside.

#include "kernels/generic/elements/elementwise.hpp"

#include "kernels/generic/functions.cuh"
#include "kernels/generic/numbers.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

template <typename T, int width>
__global__ void add_kernel(Target out, Source left, Source right, std::size_t count) {
  for_own_elements<width>(count, [&]<int n>(std::size_t first) {
    T terms[n];
    T others[n];
    load(left, first, terms);
    load(right, first, others);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      terms[i] += others[i];
    }
    store(out, first, terms);
  });
}

template <typename T, int width>
__global__ void scale_kernel(Target x, T factor, std::size_t count) {
  for_own_elements<width>(count, [&]<int n>(std::size_t first) {
    T values[n];
    load(x, first, values);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      values[i] *= factor;
    }
    store(x, first, values);
  });
}

template <typename T>
__global__ void swiglu_kernel(Target product, Source gate, Source up, std::size_t count) {
  const std::size_t index = global_thread();
  if (index < count) {
    const T left = load<T>(gate, index);
    store(product, index, left * sigmoid(left) * load<T>(up, index));
  }
}

template <typename T>
__global__ void swiglu_backward_kernel(SwigluBackward of, std::size_t count) {
  const std::size_t index = global_thread();
  if (index < count) {
    const T left = load<T>(of.gate, index);
    const T d_product = load<T>(of.d_product, index);
    const T share = sigmoid(left);
    const T silu = left * share;
    const T slope = share + silu * (T(1) - share);
    store(of.d_gate, index, d_product * load<T>(of.up, index) * slope);
    store(of.d_up, index, d_product * silu);
  }
}

}  // namespace

template <>
void add<kExecutor>(const Target& out, const Source& left, const Source& right, std::size_t count,
                    const Queue& queue) {
  if (come_in_several({out, left, right})) {
    launch_each(add_kernel<float, kSeveral>, "add", count / kSeveral + count % kSeveral, queue, out,
                left, right, count);
  } else {
    launch_each(sums_in_f64(out.number) ? add_kernel<double, 1> : add_kernel<float, 1>, "add",
                count, queue, out, left, right, count);
  }
}

template <>
void scale<kExecutor>(const Target& x, double factor, std::size_t count, const Queue& queue) {
  if (sums_in_f64(x.number)) {
    launch_each(scale_kernel<double, 1>, "scale", count, queue, x, factor, count);
  } else if (come_in_several({x})) {
    launch_each(scale_kernel<float, kSeveral>, "scale", count / kSeveral + count % kSeveral, queue,
                x, static_cast<float>(factor), count);
  } else {
    launch_each(scale_kernel<float, 1>, "scale", count, queue, x, static_cast<float>(factor),
                count);
  }
}

template <>
void swiglu<kExecutor>(const Target& product, const Source& gate, const Source& up,
                       std::size_t count, const Queue& queue) {
  launch_each(sums_in_f64(gate.number) ? swiglu_kernel<double> : swiglu_kernel<float>, "swiglu",
              count, queue, product, gate, up, count);
}

template <>
void swiglu_backward<kExecutor>(const SwigluBackward& operands, std::size_t count,
                                const Queue& queue) {
  launch_each(sums_in_f64(operands.gate.number) ? swiglu_backward_kernel<double>
                                                : swiglu_backward_kernel<float>,
              "swiglu_backward", count, queue, operands, count);
}

}  // namespace ultra::kernels::generic
