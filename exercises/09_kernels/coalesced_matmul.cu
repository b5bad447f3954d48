// Exercise 09.1: a matrix product whose loads are coalesced.
//
// Goal:        give the lanes of a warp work that lies side by side in memory.
// Length:      about 20 lines
// Difficulty:  easy
// Check:       ./workbook check 09.1
// Hints:       ./workbook hint 09.1
// Targets:     the product of any shape; 1 sector per request for a, 4 for b and c where rows begin at
//              a sector; no access outside the matrices
//
// kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp declares the launcher; 01_naive.cu, beside it,
// is the rung before.
//
// The emulator checks and counts what goes through ldg(), stg(), lds() and sts(), one of a kind per line,
// in kernels whose names end in _kernel. The check of this exercise refuses plain accesses.
#include "common/base/errors.hpp"
#include "kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

using namespace simt;

// TODO 1: a kernel, one thread per element of c. Which of threadIdx.x and .y counts rows, which columns?
// Loads through ldg(&p[i]), stores through stg(&p[i], x); threads outside c return.

}  // namespace

// TODO 2: launch() it on enough blocks for every element: ceil_div() counts them.
template <>
void coalesced<kExecutor>([[maybe_unused]] const Problem& problem,
                          [[maybe_unused]] const Queue& queue) {
  throw NotWritten("09.1 coalesced_matmul");
}

}  // namespace ultra::kernels::matmul_fp32
