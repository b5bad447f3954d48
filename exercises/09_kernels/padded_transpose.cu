// Exercise 09.4: a transposition whose tile has no bank conflicts.
//
// Goal:        turn tiles in shared memory, laid out so that rows and columns are both accessed in
//              one pass.
// Length:      about 30 lines
// Difficulty:  easy
// Check:       ./workbook check 09.4
// Hints:       ./workbook hint 09.4
// Targets:     any shape; 4 sectors per load and store of global memory; 1 wavefront per access of
//              shared memory
//
// kernels/ladders/basics/transpose/transpose.hpp declares the launcher; 02_tiled.cu, beside it, is
// the rung before.
//
// The emulator checks and counts what goes through ldg(), stg(), lds() and sts(), one of a kind per line,
// in kernels whose names end in _kernel. The check of this exercise refuses plain accesses.
#include "common/base/errors.hpp"
#include "kernels/ladders/basics/transpose/transpose.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::transpose {
namespace {

using namespace simt;

// TODO 1: a kernel whose blocks load a tile of in, row by row, into shared memory: ldg(), then
// sts(). How long must a row of the tile be so that elements below each other lie in different
// banks?

// TODO 2: after a barrier, the same blocks store the tile's columns as rows of out: lds(), then
// stg(). Which elements lie outside out at a ragged edge?

}  // namespace

// TODO 3: launch() it on enough blocks for every tile: ceil_div() counts them.
template <>
void padded<kExecutor>([[maybe_unused]] const Problem& problem,
                       [[maybe_unused]] const Queue& queue) {
  throw NotWritten("09.4 padded_transpose");
}

}  // namespace ultra::kernels::transpose
