#pragma once
/// @file
/// The layouts and results that products of a backward pass have, each a kernel of its own.

#include "kernels/ladders/matmul/matmul_turned/matmul_turned.hpp"
#include "kernels/simt/error.hpp"

namespace ultra::kernels::matmul_turned {
namespace {

/// @brief Calls launch.operator()<a_lies, b_lies>(result) with the problem's own.
/// @throws simt::SimtError for a pair of layouts that no kernel has.
template <typename Launch>
void launch_by_layout(const Problem& problem, const Launch& launch) {
  constexpr Lies kDepth = Lies::kAlongDepth;
  constexpr Lies kRows = Lies::kAlongRows;
  const bool b_turns = problem.b_lies == kRows;
  if (!has_kernel(problem.a_lies, problem.b_lies)) {
    throw simt::SimtError(
        simt::Fault::kLaunch,
        "a lies along its rows and b along the depth, expected b, or both, to lie "
        "along rows. Hint: exchange the factors, and c is transposed");
  }
  if (problem.c != nullptr) {
    return problem.a_lies == kRows ? launch.template operator()<kRows, kRows>(problem.c)
           : b_turns               ? launch.template operator()<kDepth, kRows>(problem.c)
                                   : launch.template operator()<kDepth, kDepth>(problem.c);
  }
  return problem.a_lies == kRows ? launch.template operator()<kRows, kRows>(problem.sums)
         : b_turns               ? launch.template operator()<kDepth, kRows>(problem.sums)
                                 : launch.template operator()<kDepth, kDepth>(problem.sums);
}

/// @brief Stores the neighbours (row, column) and (row, column + 1) of fp32 sums, or adds to them, as far
/// as they exist; columns is even.
__device__ __forceinline__ void store_sum_pair(float* sums, int row, int column, int rows,
                                               int columns, float left, float right, bool adds) {
  if (row >= rows || column >= columns) {
    return;
  }
  auto* const place =
      reinterpret_cast<float2*>(sums + static_cast<std::ptrdiff_t>(row) * columns + column);
  float2 pair = make_float2(left, right);
  if (adds) {
    const float2 before = simt::ldg(place);
    pair = make_float2(before.x + pair.x, before.y + pair.y);
  }
  simt::stg(place, pair);
}

}  // namespace
}  // namespace ultra::kernels::matmul_turned
