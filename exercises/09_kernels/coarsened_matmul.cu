// Exercise 09.3: a matrix product with eight elements of c per thread.
//
// Goal:        use what was loaded from shared memory more than once, from a register.
// Length:      about 60 lines
// Difficulty:  medium
// Check:       ./workbook check 09.3
// Hints:       ./workbook hint 09.3
// Targets:     the product of any shape; 9 loads from shared memory for 8 multiply-adds; half the
//              sectors of exercise 09.2; no bank conflict
//
// kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp declares the launcher; your exercise 09.2 is
// the rung before.
//
// The emulator checks and counts what goes through ldg(), stg(), lds() and sts(), one of a kind per line,
// in kernels whose names end in _kernel. The check of this exercise refuses plain accesses.
#include "common/base/errors.hpp"
#include "kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

using namespace simt;

// TODO 1: a kernel for blocks of 512 threads, which compute 64 x 64 of c: 8 rows of one column each.
// The lanes of a warp have the same rows and neighbouring columns.
// TODO 2: a loop over the depth in steps of 8, with tiles of 64 x 8 of a and 8 x 64 of b: each thread
// loads one element of each. These are not the rows and columns that it computes.
// TODO 3: for each of the 8 k: one element of b into a register, then 8 elements of a and 8
// multiply-adds into float sums[8]. Loops with constant bounds and #pragma unroll keep it in registers.
// TODO 4: store the 8 sums, those that lie in c.

}  // namespace

// TODO 5: launch() it on enough blocks for every element of c.
template <>
void coarsened<kExecutor>([[maybe_unused]] const Problem& problem,
                          [[maybe_unused]] const Queue& queue) {
  throw NotWritten("09.3 coarsened_matmul");
}

}  // namespace ultra::kernels::matmul_fp32
