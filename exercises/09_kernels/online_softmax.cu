// Exercise 09.7: softmax whose largest element and sum come from one pass.
//
// Goal:        rescale a running sum when the largest element grows: the heart of flash attention.
// Length:      about 30 lines
// Difficulty:  medium
// Check:       ./workbook check 09.7
// Hints:       ./workbook hint 09.7
// Targets:     rows of any length; elements of any size; 2 reads and 1 write per element, 4 sectors
//              per request
//
// kernels/ladders/rows/softmax/softmax.hpp declares the launcher; 02_warp_per_row.cu, beside it, is
// the rung before.
//
// The emulator checks and counts what goes through ldg(), stg(), lds() and sts(), one of a kind per line,
// in kernels whose names end in _kernel. The check of this exercise refuses plain accesses.
#include "common/base/errors.hpp"
#include "kernels/ladders/rows/softmax/softmax.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::softmax {
namespace {

using namespace simt;

// TODO 1: a kernel with a warp per row. Each lane goes once over its elements and keeps the largest
// so far, and the sum of exp(element - largest so far). What happens to the sum when the largest
// grows?

// TODO 2: bring the lanes' sums to the row's largest element, and add them: warp_max(), warp_sum().
// What has a lane found whose elements are all masked by -infinity, or that has none?

// TODO 3: a second pass writes exp(element - largest) / sum.

}  // namespace

// TODO 4: launch() it on enough blocks for every row.
template <>
void online<kExecutor>([[maybe_unused]] const Problem& problem,
                       [[maybe_unused]] const Queue& queue) {
  throw NotWritten("09.7 online_softmax");
}

}  // namespace ultra::kernels::softmax
