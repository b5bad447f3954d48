// Exercise 02.7: the cost of the ring.
//
// Goal:        predict messages, bytes and seconds of the ring before a byte is sent.
// Length:      about 20 lines
// Difficulty:  easy
// Check:       ./workbook check 02.7
// Hints:       ./workbook hint 02.7
// Targets:     8 GPUs, all-reduce of 1 GB   14 messages, 1.75 GB sent by each GPU
//              64 ranks, 350 GB             chunks of 5.47 GB
//              8 GPUs at 370 GB/s, 1 GB     4.73 ms without latency, 4.78 ms with 3.4 us a message
//              any count                    the time that the steps take one by one
//
// chapters/02_collectives/ring_cost.hpp declares the functions. Derive the closed forms from
// your own ring (exercises 02.1 and 02.2): how many messages does a rank
// send, how long is each, which of them are reduced?
#include "chapters/02_collectives/ring_cost.hpp"

#include "common/base/errors.hpp"

namespace ultra::collectives {

// TODO 1: one trip around the ring, with a reduction at every stop. The whole array of `count`
// elements is cut into as many chunks as there are ranks; where that does not divide, the longest
// chunk sets the pace.
RingCost ring_reduce_scatter_cost([[maybe_unused]] int ranks, [[maybe_unused]] std::size_t count,
                                  [[maybe_unused]] std::size_t element_bytes,
                                  [[maybe_unused]] const LinkCost& link) {
  throw NotWritten("02.7 ring_cost: ring_reduce_scatter_cost");
}

// TODO 2: the same trip, but what arrives is stored.
RingCost ring_all_gather_cost([[maybe_unused]] int ranks, [[maybe_unused]] std::size_t count,
                              [[maybe_unused]] std::size_t element_bytes,
                              [[maybe_unused]] const LinkCost& link) {
  throw NotWritten("02.7 ring_cost: ring_all_gather_cost");
}

// TODO 3: one trip to reduce, one to distribute.
RingCost ring_all_reduce_cost([[maybe_unused]] int ranks, [[maybe_unused]] std::size_t count,
                              [[maybe_unused]] std::size_t element_bytes,
                              [[maybe_unused]] const LinkCost& link) {
  throw NotWritten("02.7 ring_cost: ring_all_reduce_cost");
}

}  // namespace ultra::collectives
