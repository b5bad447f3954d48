// Threads add what is theirs, packs of 16 bytes as many packs apart as there are threads, and blocks what
// their threads have got; then one block adds what the blocks have got.

#include "kernels/generic/elements/sums.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/generic/numbers.cuh"
#include "kernels/simt/block_reduce.cuh"
#include "kernels/simt/pack.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

constexpr std::size_t kSumThreads = 1024;
constexpr int kInFlight = 4;  // packs that a thread waits for at once

template <typename T, int width>
__device__ __forceinline__ double squares_of(const Pack<T, width>& pack) {
  double sum = 0;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const double value = widen(pack.values[i]);
    sum += value * value;
  }
  return sum;
}

// `width` elements are read at once: 16 bytes of them where x begins at a multiple.
template <typename T, int width>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(double* partials, const T* __restrict__ x, std::size_t count) {
  __shared__ double of_warps[kMostWarps];
  const std::size_t threads = std::size_t{gridDim.x} * kThreads;
  const auto* const packs = reinterpret_cast<const Pack<T, width>*>(x);
  const std::size_t last = count / width;
  double sum = 0;
  std::size_t index = global_thread();
  for (; index + (kInFlight - 1) * threads < last; index += kInFlight * threads) {
    Pack<T, width> read[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      read[i] = ldg(&packs[index + i * threads]);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      sum += squares_of(read[i]);
    }
  }
  for (; index < last; index += threads) {
    sum += squares_of(ldg(&packs[index]));
  }
  // Fewer than `width` are left.
  if (const std::size_t rest = last * width + global_thread(); rest < count) {
    const double value = widen(ldg(&x[rest]));
    sum += value * value;
  }
  sum = block_sum(sum, of_warps);
  if (threadIdx.x == 0) {
    stg(&partials[blockIdx.x], sum);
  }
}

// One block.
__global__ void __launch_bounds__(kSumThreads)
    sum_kernel(double* sum, const double* terms, std::size_t count, double factor, Write write) {
  __shared__ double of_warps[kMostWarps];
  double own = 0;
  for (std::size_t index = threadIdx.x; index < count; index += blockDim.x) {
    own += ldg(&terms[index]);
  }
  const double all = block_sum(own, of_warps) * factor;
  if (threadIdx.x == 0) {
    const double before = write == Write::kAdd ? ldg(sum) : 0.0;
    stg(sum, before + all);
  }
}

template <typename T>
void launch_squares(double* partials, const void* data, std::size_t count, const Queue& queue) {
  constexpr int kWidth = 16 / sizeof(T);
  const auto* const x = static_cast<const T*>(data);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  launch(is_aligned ? squares_kernel<T, kWidth> : squares_kernel<T, 1>,
         {.name = "squares",
          .grid = {.x = static_cast<unsigned>(partial_sums(count))},
          .block = {.x = kThreads},
          .queue = queue},
         partials, x, count);
}

}  // namespace

template <>
void sum_of<kExecutor>(double* sum, const double* terms, std::size_t count, double factor,
                       Write write, const Queue& queue) {
  const std::size_t warps = ceil_div(std::max<std::size_t>(count, 1), std::size_t{32});
  const auto threads = static_cast<unsigned>(std::min(32 * warps, kSumThreads));
  launch(sum_kernel, {.name = "sum", .grid = {}, .block = {.x = threads}, .queue = queue}, sum,
         terms, count, factor, write);
}

template <>
void sum_of_squares<kExecutor>(double* sum, const Source& x, std::size_t count, double* partials,
                               Write write, const Queue& queue) {
  const auto squares = x.number == Number::kF64    ? launch_squares<double>
                       : x.number == Number::kBf16 ? launch_squares<bf16>
                       : x.number == Number::kF16  ? launch_squares<half>
                                                   : launch_squares<float>;
  squares(partials, x.data, count, queue);
  sum_of<kExecutor>(sum, partials, partial_sums(count), 1.0, write, queue);
}

}  // namespace ultra::kernels::generic
