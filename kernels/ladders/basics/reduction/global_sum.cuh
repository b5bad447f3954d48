#pragma once
/// @file
/// What comes before and after a kernel that adds up into Problem::total: two launches of one
/// thread.
///
/// The total is fp64: n numbers added one after the other in fp32 are off by up to n u (Higham
/// 2002, section 4.2), and beyond 2^24 equal ones the sum does not grow at all.

#include <cmath>

#include "kernels/ladders/basics/reduction/reduction.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::reduction {
namespace {

__global__ void clear_total_kernel(double* total) { simt::stg(total, 0.0); }

__global__ void root_of_total_kernel(const double* total, float* norm) {
  const double sum = simt::ldg(total);
  simt::stg(norm, sqrtf(static_cast<float>(sum)));
}

/// @brief Sets the total to 0.
void clear_total(const Problem& problem, const simt::Queue& queue) {
  simt::launch(clear_total_kernel, {.name = "clear_total", .queue = queue}, problem.total);
}

/// @brief Writes the norm: the root of the total.
void root_of_total(const Problem& problem, const simt::Queue& queue) {
  simt::launch(root_of_total_kernel, {.name = "root_of_total", .queue = queue}, problem.total,
               problem.norm);
}

}  // namespace
}  // namespace ultra::kernels::reduction
