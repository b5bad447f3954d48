// Exercise 02.4: recursive halving and doubling.
//
// Goal:        the ring's volume in 2 log2 P steps: what pays when latency counts.
// Length:      about 30 lines in three functions
// Difficulty:  medium
// Check:       ./workbook check 02.4
// Hints:       ./workbook hint 02.4
// Targets:     log2 P steps for each half;
//              n - (own chunk) elements sent per rank by the halving, n (P-1)/P for equal chunks;
//              a group that is no power of two is a ConfigError that names its size
//
// chapters/02_collectives/halving_doubling.hpp declares the functions. Chunks::span(first, last)
// gives several chunks as one range.
#include "chapters/02_collectives/halving_doubling.hpp"

#include "chapters/02_collectives/steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::collectives {

// TODO 1: reject a group size that is no power of two: say why, what was found, what to use instead.
// TODO 2: keep the window of chunks that this position still works on: all of them at first. Each
//         step halves it: exchange halves with the partner half a window away. Which half is kept,
//         so that position i ends with chunk i?
comm::Lane recursive_halving_reduce_scatter([[maybe_unused]] const comm::Group& group,
                                            [[maybe_unused]] const comm::Chunks& chunks) {
  throw NotWritten("02.4 halving_doubling: recursive_halving_reduce_scatter");
}

// TODO 3: the same way backwards: windows of 1, 2, 4, ... chunks, exchanged with partners at
//         distances 1, 2, 4, ...
comm::Lane recursive_doubling_all_gather([[maybe_unused]] const comm::Group& group,
                                         [[maybe_unused]] const comm::Chunks& chunks) {
  throw NotWritten("02.4 halving_doubling: recursive_doubling_all_gather");
}

// TODO 4: one after the other.
comm::Lane halving_doubling_all_reduce([[maybe_unused]] const comm::Group& group,
                                       [[maybe_unused]] const comm::Chunks& chunks) {
  throw NotWritten("02.4 halving_doubling: halving_doubling_all_reduce");
}

}  // namespace ultra::collectives
