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

// As many warps as a block's terms need.
unsigned threads_for(std::size_t count, std::size_t most) {
  const std::size_t warps = ceil_div(std::max<std::size_t>(count, 1), std::size_t{32});
  return static_cast<unsigned>(std::min(32 * warps, most));
}

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

// The digits of a block's terms; each thread's own are in shared memory, a thread's beside its neighbour's.
template <typename T, bool squares>
__global__ void __launch_bounds__(kThreads)
    exact_digits_kernel(std::int64_t* partials, const T* __restrict__ x, std::size_t count) {
  __shared__ std::int64_t of_warps[2][kMostWarps];
  std::int64_t* const own = dynamic_shared<std::int64_t>() + threadIdx.x;
  for (std::size_t i = 0; i < ExactDigits::kCount; ++i) {
    sts(&own[i * blockDim.x], std::int64_t{0});
  }
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t index = global_thread(); index < count; index += threads) {
    const double number = widen(ldg(&x[index]));
    const ExactDigits::Term term = ExactDigits::term_of(squares ? number * number : number);
#pragma unroll
    for (int i = 0; i < ExactDigits::kOfTerm; ++i) {
      std::int64_t* const digit = &own[(term.place + i) * blockDim.x];
      const std::int64_t before = lds(digit);
      sts(digit, before + term.parts[i]);
    }
  }
  std::int64_t up = 0;
  for (std::size_t i = 0; i < ExactDigits::kCount; ++i) {
    std::int64_t digit = block_sum(lds(&own[i * blockDim.x]), of_warps[i % 2]) + up;
    up = ExactDigits::carry(i, digit);
    if (threadIdx.x == 0) {
      stg(&partials[blockIdx.x * ExactDigits::kCount + i], digit);
    }
  }
}

// One warp, a lane for each digit.
__global__ void join_digits_kernel(double* sum, const std::int64_t* partials, std::size_t blocks,
                                   Write write) {
  __shared__ std::int64_t joined[ExactDigits::kCount];
  if (threadIdx.x < ExactDigits::kCount) {
    std::int64_t digit = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      digit += ldg(&partials[block * ExactDigits::kCount + threadIdx.x]);
    }
    sts(&joined[threadIdx.x], digit);
  }
  __syncwarp();  // else lane 0 carries what is not there yet
  if (threadIdx.x != 0) {
    return;
  }
  std::int64_t up = 0;
  for (std::size_t i = 0; i < ExactDigits::kCount; ++i) {
    std::int64_t digit = lds(&joined[i]) + up;
    up = ExactDigits::carry(i, digit);
    const double before = write == Write::kAdd ? ldg(&sum[i]) : 0.0;
    stg(&sum[i], before + static_cast<double>(digit));
  }
}

template <typename T>
void launch_digits(std::int64_t* partials, const void* data, std::size_t count, Terms terms,
                   const Queue& queue) {
  const unsigned threads = threads_for(count, kThreads);
  launch(terms == Terms::kSquares ? exact_digits_kernel<T, true> : exact_digits_kernel<T, false>,
         {.name = "exact_digits",
          .grid = {.x = static_cast<unsigned>(partial_sums(count))},
          .block = {.x = threads},
          .shared_bytes = threads * ExactDigits::kCount * sizeof(std::int64_t),
          .queue = queue},
         partials, static_cast<const T*>(data), count);
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
  launch(
      sum_kernel,
      {.name = "sum", .grid = {}, .block = {.x = threads_for(count, kSumThreads)}, .queue = queue},
      sum, terms, count, factor, write);
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

template <>
void exact_sum_of<kExecutor>(double* digits, const Source& x, std::size_t count, Terms terms,
                             std::int64_t* partials, Write write, const Queue& queue) {
  const auto digits_of = x.number == Number::kF64    ? launch_digits<double>
                         : x.number == Number::kBf16 ? launch_digits<bf16>
                         : x.number == Number::kF16  ? launch_digits<half>
                                                     : launch_digits<float>;
  digits_of(partials, x.data, count, terms, queue);
  launch(join_digits_kernel,
         {.name = "join_digits", .grid = {}, .block = {.x = 32}, .queue = queue}, digits, partials,
         partial_sums(count), write);
}

}  // namespace ultra::kernels::generic
