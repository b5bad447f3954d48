#pragma once
/// @file
/// What the launchers of Hopper's rungs refuse, and the names of kernels/hopper that they use.

#include "kernels/hopper/prepare.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/units.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

using namespace hopper;

}  // namespace

/// @brief Refuses a GPU that is not of compute capability 9.0, and rows that TMA cannot describe.
/// @throws simt::SimtError
template <simt::Executor executor>
void expect_hopper(const Problem& problem);

}  // namespace ultra::kernels::matmul_bf16
