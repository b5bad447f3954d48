// Exercise 02.2: all-gather on a ring.
//
// Goal:        write the second half: chunks that are complete at one rank each reach all ranks.
// Length:      about 10 lines
// Difficulty:  easy
// Check:       ./workbook check 02.2
// Hints:       ./workbook hint 02.2
// Targets:     P - 1 steps;
//              n - (the next position's chunk) elements sent per rank: n (P-1)/P for equal chunks
//
// chapters/02_collectives/ring_all_gather.hpp declares the function.
#include "chapters/02_collectives/ring_all_gather.hpp"

#include "chapters/02_collectives/steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::collectives {

// TODO 1: P - 1 steps around the ring, in the direction of exercise 02.1.
// TODO 2: choose the chunks: at first a position has only its own; then it passes on what has arrived.
// TODO 3: choose what happens to a message that arrives.
comm::Lane ring_all_gather([[maybe_unused]] const comm::Group& group,
                           [[maybe_unused]] const comm::Chunks& chunks) {
  throw NotWritten("02.2 ring_all_gather");
}

}  // namespace ultra::collectives
