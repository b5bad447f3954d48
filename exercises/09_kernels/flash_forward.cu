// Exercise 09.8: attention that never stores its matrix of scores.
//
// Goal:        keep scores in registers and weights in shared memory: an online softmax over tiles.
// Length:      about 65 lines
// Difficulty:  hard
// Check:       ./workbook check 09.8
// Hints:       ./workbook hint 09.8
// Targets:     o and lse for any sequence, causal or not, with heads in groups, scores large or small;
//              each key and value loaded once per block of 64 rows; no race
//
// kernels/ladders/attention/attention/attention.hpp declares the launcher and the layouts;
// tiles.cuh, beside it, has the tiles, their loads and their products; 03_online.cu does the same
// for one row per warp.
//
// The emulator checks and counts what goes through ldg(), stg(), lds() and sts(), one of a kind per line,
// in kernels whose names end in _kernel. The check of this exercise refuses plain accesses.
#include "common/base/errors.hpp"
#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/ladders/attention/attention/tiles.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention {
namespace {

using namespace simt;

// TODO 1: a kernel for kHeadDim = 64 or 128, the tiles' columns. A block of kThreads owns kTile rows of
// one head: load_tile() their queries into shared memory, which has room for three tiles.
//
// TODO 2: for every tile of keys: load keys and values, multiply_transposed() queries and keys into
// float scores[4][4] (4 rows, columns 16 apart); scale them; -infinity where a key is not seen.
//
// TODO 3: per row, the new largest score (max_over_row()); shrink what was summed before by
// exp(old largest - new largest); turn scores into weights exp(score - largest); add them up.
//
// TODO 4: put the weights where multiply() reads them (the keys' tile will do, once nobody needs it),
// and multiply them and the values into float4 output[4][kHeadDim / 64]. Which of these steps need
// a barrier between them?
//
// TODO 5: after the last tile: sum_over_row(), store_row() of output / sum, lse = largest + log(sum).

}  // namespace

// TODO 6: launch() it: ceil_div(seq_len, kTile) blocks for each head, 3 * kTile * kStride<kHeadDim>
// floats of shared memory, which the kernel finds by dynamic_shared<float>() (kernels/simt/simt.cuh).
template <>
void flash_forward<kExecutor>([[maybe_unused]] const Problem& problem,
                              [[maybe_unused]] const Queue& queue) {
  throw NotWritten("09.8 flash_forward");
}

}  // namespace ultra::kernels::attention
