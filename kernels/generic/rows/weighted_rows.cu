// A thread for each element of the result; for scalar products a warp for each row.

#include "kernels/generic/rows/weighted_rows.hpp"

#include "kernels/generic/functions.cuh"
#include "kernels/generic/numbers.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

template <typename T>
__device__ __forceinline__ T weight_of(const Source& weights, std::size_t row) {
  return weights.data == nullptr ? T(1) : load<T>(weights, row);
}

template <typename T>
__global__ void take_rows_kernel(RowList list, Target out, Source x) {
  const std::size_t index = global_thread();
  if (index >= list.rows * list.features) {
    return;
  }
  const std::size_t row = index / list.features;
  const auto from = static_cast<std::size_t>(ldg(&list.of[row]));
  const T value = load<T>(x, from * list.features + index % list.features);
  store(out, index, weight_of<T>(list.weights, row) * value);
}

template <typename T>
__global__ void dot_rows_kernel(RowList list, Target out, Source a, Source b) {
  const std::size_t row = row_of_warp();
  if (row >= list.rows) {
    return;
  }
  const auto other = static_cast<std::size_t>(ldg(&list.of[row]));
  T own = 0;
  for (std::size_t i = threadIdx.x % 32; i < list.features; i += 32) {
    own += load<T>(a, row * list.features + i) * load<T>(b, other * list.features + i);
  }
  const T sum = warp_sum(own);
  if (threadIdx.x % 32 == 0) {
    store(out, row, sum);
  }
}

template <typename T>
__global__ void sum_rows_kernel(RowSums of, Target out, Source x) {
  const std::size_t index = global_thread();
  if (index >= of.sums * of.features) {
    return;
  }
  const std::size_t place = index / of.features;
  T sum = 0;
  for (std::size_t term = 0; term < of.terms; ++term) {
    const std::int32_t row = ldg(&of.rows[place * of.terms + term]);
    if (row >= 0) {
      const auto from = static_cast<std::size_t>(row);
      const T value = load<T>(x, from * of.features + index % of.features);
      sum += weight_of<T>(of.weights, from) * value;
    }
  }
  store(out, index, sum);
}

}  // namespace

template <>
void take_rows<kExecutor>(const RowList& list, const Target& out, const Source& x,
                          const Queue& queue) {
  launch_each(sums_in_f64(x.number) ? take_rows_kernel<double> : take_rows_kernel<float>,
              "take_rows", list.rows * list.features, queue, list, out, x);
}

template <>
void dot_rows<kExecutor>(const RowList& list, const Target& out, const Source& a, const Source& b,
                         const Queue& queue) {
  launch_rows(sums_in_f64(a.number) ? dot_rows_kernel<double> : dot_rows_kernel<float>, "dot_rows",
              list.rows, queue, list, out, a, b);
}

template <>
void sum_rows<kExecutor>(const RowSums& of, const Target& out, const Source& x,
                         const Queue& queue) {
  launch_each(sums_in_f64(x.number) ? sum_rows_kernel<double> : sum_rows_kernel<float>, "sum_rows",
              of.sums * of.features, queue, of, out, x);
}

}  // namespace ultra::kernels::generic
