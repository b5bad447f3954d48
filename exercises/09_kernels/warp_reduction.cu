// Exercise 09.5: a sum of squares by warp shuffles.
//
// Goal:        add up inside a warp without shared memory and barriers.
// Length:      about 30 lines
// Difficulty:  medium
// Check:       ./workbook check 09.5
// Hints:       ./workbook hint 09.5
// Targets:     any length; one store to shared memory per warp; one atomic per block
//
// kernels/ladders/basics/reduction/reduction.hpp declares the launcher; 03_dense_tree.cu, beside
// it, is the rung before. kernels/simt/warp_reduce.cuh has a warp_sum(): write your own here, it is
// what this is about.
//
// The emulator checks and counts what goes through ldg(), stg(), lds() and sts(), one of a kind per line,
// in kernels whose names end in _kernel. The check of this exercise refuses plain accesses.
#include "common/base/errors.hpp"
#include "kernels/ladders/basics/reduction/global_sum.cuh"
#include "kernels/ladders/basics/reduction/reduction.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::reduction {
namespace {

using namespace simt;

// TODO 1: a __device__ function that returns the sum of a value over the lanes of a warp. A lane
// gets another lane's value by __shfl_xor_sync(kAllLanes, value, distance).

// TODO 2: a kernel in which each thread squares one value, each warp adds up its squares and leaves
// the sum in shared memory, and the first warp adds up these sums. atomicAdd() takes a double.
// What do threads behind the end of the values do?

}  // namespace

// TODO 3: launch() it between the two helpers, which set the total to 0 and take its root.
template <>
void warp_shuffles<kExecutor>(const Problem& problem, const Queue& queue) {
  clear_total(problem, queue);
  throw NotWritten("09.5 warp_reduction");
  root_of_total(problem, queue);
}

}  // namespace ultra::kernels::reduction
