// Exercise 09.2: a matrix product from tiles in shared memory.
//
// Goal:        let a block load each element of a and b that it needs once, not once per thread.
// Length:      about 40 lines
// Difficulty:  medium
// Check:       ./workbook check 09.2
// Hints:       ./workbook hint 09.2
// Targets:     the product of any shape; 2/32 loads from global memory per multiply-add; no bank
//              conflict; no race, nothing read that was not written
//
// kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp declares the launcher; your exercise 09.1 is
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

// TODO 1: a kernel for blocks of 32 x 32 threads, one thread per element of c, with two tiles of 32 x 32
// floats in shared memory: __shared__ float tile_a[32][32].
// TODO 2: a loop over the depth in steps of 32. Each thread loads one element of a and one of b with
// ldg() and stores them with sts(); what lies outside the matrices is 0.
// TODO 3: 32 multiply-adds from the tiles with lds(). Where must the block wait with __syncthreads(),
// and for what? Every thread must reach every barrier: also those outside c.
// TODO 4: store the sum where it lies in c.

}  // namespace

// TODO 5: launch() it on enough blocks for every element: ceil_div() counts them.
template <>
void tiled<kExecutor>([[maybe_unused]] const Problem& problem,
                      [[maybe_unused]] const Queue& queue) {
  throw NotWritten("09.2 tiled_matmul");
}

}  // namespace ultra::kernels::matmul_fp32
