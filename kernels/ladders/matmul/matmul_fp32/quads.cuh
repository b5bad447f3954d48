#pragma once
/// @file
/// Four neighbours of a row as one float4, and what to do where they are not four or not aligned. Each
/// rung that includes this has its own copy, compiled for its executor: hence the unnamed namespace.

#include "kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

/// @brief Where the rows begin that are accessed by four elements at a time. Kernels exist for both, so
/// that the usual case pays nothing for the other.
enum class RowStart {
  /// @brief All at multiples of 16 bytes: four neighbours are one access, and all in the row or none.
  kAligned,
  /// @brief Some elsewhere: elements are accessed one by one.
  kAnywhere,
};

/// @brief Where rows of these lengths begin: aligned if every length is a multiple of four.
template <typename... Lengths>
RowStart row_start(Lengths... lengths) {
  return (... && (lengths % 4 == 0)) ? RowStart::kAligned : RowStart::kAnywhere;
}

/// @brief The first `count` of four neighbours, one by one; zeros for the others.
__device__ __forceinline__ float4 load_singly(const float* address, int count) {
  float4 quad = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  if (simt::branch(count > 0)) {
    quad.x = simt::ldg(&address[0]);
  }
  if (simt::branch(count > 1)) {
    quad.y = simt::ldg(&address[1]);
  }
  if (simt::branch(count > 2)) {
    quad.z = simt::ldg(&address[2]);
  }
  if (simt::branch(count > 3)) {
    quad.w = simt::ldg(&address[3]);
  }
  return quad;
}

/// @brief Stores the first `count` of four neighbours, one by one.
__device__ __forceinline__ void store_singly(float* address, const float4& quad, int count) {
  if (simt::branch(count > 0)) {
    simt::stg(&address[0], quad.x);
  }
  if (simt::branch(count > 1)) {
    simt::stg(&address[1], quad.y);
  }
  if (simt::branch(count > 2)) {
    simt::stg(&address[2], quad.z);
  }
  if (simt::branch(count > 3)) {
    simt::stg(&address[3], quad.w);
  }
}

/// @brief Stores four neighbours of a row of c, those of them that the row has.
/// @param address  of the first, at `column`; `columns` is the row's length.
template <RowStart kStart>
__device__ __forceinline__ void store_quad(float* address, const float4& quad, int column,
                                           int columns) {
  if constexpr (kStart == RowStart::kAnywhere) {
    store_singly(address, quad, columns - column);
  } else if (simt::branch(column < columns)) {
    simt::stg(reinterpret_cast<float4*>(address), quad);
  }
}

}  // namespace
}  // namespace ultra::kernels::matmul_fp32
