// Exercise 09.6: a residual addition and an RMSNorm in one kernel that moves the least bytes.
//
// Goal:        read x and residual once, write h and y once, and nothing else of their size.
// Length:      about 60 lines
// Difficulty:  medium
// Check:       ./workbook check 09.6
// Hints:       ./workbook hint 09.6
// Targets:     h, y and reciprocal_rms of any shape; one launch; two arrays read and two written
//              (and weight, once per row), 16 bytes an access where rows begin at a multiple of 16
//              bytes
//
// kernels/ladders/rows/rms_norm/rms_norm.hpp declares the launcher; 04_in_registers.cu, beside it,
// is the rung before.
//
// The emulator checks and counts what goes through ldg(), stg(), lds() and sts(), one of a kind per line,
// in kernels whose names end in _kernel. The check of this exercise refuses plain accesses.
#include "common/base/errors.hpp"
#include "kernels/ladders/rows/rms_norm/rms_norm.hpp"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm {
namespace {

using namespace simt;

// TODO 1: the sum of a value over the threads of a block, in every thread: warp_sum() within each
// warp, then an array of shared memory with one entry per warp. Where must the block wait?

// TODO 2: a kernel, one block per row. A thread holds up to kFloatsPerThread floats of the row, as
// Pack<float, width> of `width` floats that one access moves; neighbouring threads hold neighbours.
//   - Add x and residual in registers, write the sum to h, and add up its squares.
//   - Sum these over the block; what is 1 / sqrt(mean + epsilon)? Thread 0 writes it.
//   - Scale what you hold, and write it to y.
// The row may end anywhere: threads beyond it read and write nothing.

}  // namespace

// TODO 3: launch() it with one block per row, of enough whole warps for the row: with width 4 where
// has_aligned_rows(hidden) says so, else with width 1.
template <>
void fused<kExecutor>([[maybe_unused]] const Problem& problem,
                      [[maybe_unused]] const Queue& queue) {
  throw NotWritten("09.6 fused_rms_norm");
}

}  // namespace ultra::kernels::rms_norm
