#pragma once
/// @file
/// Loads and stores of elements whose type is known when the kernel runs.

#include "kernels/generic/numbers.hpp"
#include "kernels/simt/simt.cuh"
#include "kernels/simt/small_floats.cuh"

namespace ultra::kernels::generic {
namespace {

/// @brief Threads of a block that works element by element.
constexpr int kThreads = 256;

/// @brief This thread's number in the whole grid.
__device__ __forceinline__ std::size_t global_thread() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

/// @brief An element of any type, widened: exactly.
__device__ __forceinline__ float widen(float x) { return x; }
/// @brief An element of any type, widened: exactly.
__device__ __forceinline__ double widen(double x) { return x; }
/// @brief An element of any type, widened: exactly.
__device__ __forceinline__ float widen(simt::bf16 x) { return static_cast<float>(x); }
/// @brief An element of any type, widened: exactly.
__device__ __forceinline__ float widen(simt::half x) { return static_cast<float>(x); }

/// @brief The nearest number of two bytes to an f64 number, rounded once: by way of the f32 number
/// whose last bit remembers that something was cut off.
/// Source: Boldo & Melquiond 2008, "Emulation of FMA and correctly rounded sums", IEEE Trans. Comput.
template <typename T>
__device__ __forceinline__ T narrow(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || value != value) {
    return T(nearest);
  }
  const bool grew = value < 0.0 ? back < value : back > value;
  const unsigned bits = __builtin_bit_cast(unsigned, nearest) - (grew ? 1U : 0U);
  return T(__builtin_bit_cast(float, bits | 1U));
}

/// @brief The nearest number of two bytes.
template <typename T>
__device__ __forceinline__ T narrow(float value) {
  return T(value);
}

/// @brief Element `index`, as the type in which sums are kept.
template <typename Sum>
__device__ __forceinline__ Sum load(const Source& from, std::size_t index) {
  switch (from.number) {
    case Number::kF64:
      return static_cast<Sum>(simt::ldg(static_cast<const double*>(from.data) + index));
    case Number::kBf16:
      return widen(simt::ldg(static_cast<const simt::bf16*>(from.data) + index));
    case Number::kF16:
      return widen(simt::ldg(static_cast<const simt::half*>(from.data) + index));
    default:
      return simt::ldg(static_cast<const float*>(from.data) + index);
  }
}

/// @brief Element `index` of what is also written.
template <typename Sum>
__device__ __forceinline__ Sum load(const Target& from, std::size_t index) {
  return load<Sum>(Source{from.number, from.data}, index);
}

/// @brief Writes element `index`, rounded to its type.
template <typename Sum>
__device__ __forceinline__ void store(const Target& to, std::size_t index, Sum value) {
  switch (to.number) {
    case Number::kF64:
      return simt::stg(static_cast<double*>(to.data) + index, static_cast<double>(value));
    case Number::kBf16:
      return simt::stg(static_cast<simt::bf16*>(to.data) + index, narrow<simt::bf16>(value));
    case Number::kF16:
      return simt::stg(static_cast<simt::half*>(to.data) + index, narrow<simt::half>(value));
    default:
      return simt::stg(static_cast<float*>(to.data) + index, static_cast<float>(value));
  }
}

/// @brief Launches a kernel with a thread for each of `count` elements; nothing when there is none.
template <typename... Parameters, typename... Arguments>
void launch_each(void (*kernel)(Parameters...), const char* name, std::size_t count,
                 const simt::Queue& queue, const Arguments&... arguments) {
  if (count == 0) {
    return;
  }
  simt::launch(kernel,
               {.name = name,
                .grid = {.x = simt::ceil_div(count, kThreads)},
                .block = {.x = kThreads},
                .queue = queue},
               arguments...);
}

}  // namespace
}  // namespace ultra::kernels::generic
