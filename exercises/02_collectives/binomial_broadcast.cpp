// Exercise 02.5: broadcast down a binomial tree.
//
// Goal:        reach P ranks in log2 P rounds, from any root and for any P.
// Length:      about 12 lines
// Difficulty:  medium
// Check:       ./workbook check 02.5
// Hints:       ./workbook hint 02.5
// Targets:     ceil(log2 P) rounds;
//              every position but the root receives the data once
//
// chapters/02_collectives/binomial_broadcast.hpp declares the function. Draw the tree for 8 positions
// and root 0 first, and write the numbers in binary. A round is a message time: a rank that sends
// three messages, one after the other, takes part in three rounds.
#include "chapters/02_collectives/binomial_broadcast.hpp"

#include "chapters/02_collectives/steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::collectives {

// TODO 1: count positions from the root, so that the root is 0.
// TODO 2: everybody but the root first receives. From whom? Look at the number's lowest set bit.
// TODO 3: then send on. To whom, where there is such a position? In which order, so that the last leaf
//         is reached after ceil(log2 P) rounds?
comm::Lane binomial_broadcast([[maybe_unused]] const comm::Group& group,
                              [[maybe_unused]] Range range, [[maybe_unused]] int root) {
  throw NotWritten("02.5 binomial_broadcast");
}

}  // namespace ultra::collectives
