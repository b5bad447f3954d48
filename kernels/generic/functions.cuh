#pragma once
/// @file
/// Elementary functions under one name for f32 and f64, and sums of rows by a warp.

#include "kernels/simt/simt.cuh"

namespace ultra::kernels::generic {
namespace {

/// @brief Threads of a block that works row by row, a warp for each.
constexpr int kRowThreads = 128;
/// @brief Rows of such a block.
constexpr int kRowsOfBlock = kRowThreads / 32;

/// @brief e^x.
__device__ __forceinline__ float exponential(float x) { return expf(x); }
/// @brief e^x.
__device__ __forceinline__ double exponential(double x) { return exp(x); }
/// @brief The square root of x.
__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
/// @brief The square root of x.
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }
/// @brief The natural logarithm of x.
__device__ __forceinline__ float logarithm(float x) { return logf(x); }
/// @brief The natural logarithm of x.
__device__ __forceinline__ double logarithm(double x) { return log(x); }
/// @brief a b + c, rounded once.
__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
/// @brief a b + c, rounded once.
__device__ __forceinline__ double multiply_add(double a, double b, double c) {
  return fma(a, b, c);
}
/// @brief 1 / (1 + e^-x).
template <typename T>
__device__ __forceinline__ T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}
/// @brief Minus infinity.
template <typename T>
__device__ __forceinline__ T minus_infinity() {
  return -static_cast<T>(__builtin_huge_val());
}

/// @brief The row that this thread's warp works on.
__device__ __forceinline__ std::size_t row_of_warp() {
  return std::size_t{blockIdx.x} * kRowsOfBlock + threadIdx.x / 32;
}

/// @brief Launches a kernel with a warp for each of `rows` rows; nothing when there is none.
template <typename... Parameters, typename... Arguments>
void launch_rows(void (*kernel)(Parameters...), const char* name, std::size_t rows,
                 const simt::Queue& queue, const Arguments&... arguments) {
  if (rows == 0) {
    return;
  }
  simt::launch(kernel,
               {.name = name,
                .grid = {.x = simt::ceil_div(rows, kRowsOfBlock)},
                .block = {.x = kRowThreads},
                .queue = queue},
               arguments...);
}

}  // namespace
}  // namespace ultra::kernels::generic
