// Exercise 02.1: reduce-scatter on a ring.
//
// Goal:        write the first half of the all-reduce that every training run is built on, and make
//              the right chunk end at the right rank.
// Length:      about 10 lines
// Difficulty:  easy
// Check:       ./workbook check 02.1
// Hints:       ./workbook hint 02.1
// Targets:     P - 1 steps;
//              n - (own chunk) elements sent per rank: every chunk but its own, once;
//              position i ends with chunk i, without an extra shift
//
// chapters/02_collectives/ring_reduce_scatter.hpp declares the function. A step, a group and chunks
// are in common/comm/collectives/schedule.hpp: a step sends and receives at the same time and ends when both are
// done; Group::at turns a position into the rank that a step names; positions and chunk numbers wrap
// around, negative ones too.
#include "chapters/02_collectives/ring_reduce_scatter.hpp"

#include "chapters/02_collectives/steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::collectives {

// TODO 1: P - 1 steps; in each, send to the next position and receive from the one before. All ranks
//         do both in the same step: if they all sent first, nobody would receive.
// TODO 2: choose the chunks. What a step receives and combines is what the next step sends. Work it
//         out backwards: the last message that position r receives must complete chunk r.
comm::Lane ring_reduce_scatter([[maybe_unused]] const comm::Group& group,
                               [[maybe_unused]] const comm::Chunks& chunks) {
  throw NotWritten("02.1 ring_reduce_scatter");
}

}  // namespace ultra::collectives
