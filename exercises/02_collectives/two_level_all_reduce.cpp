// Exercise 02.6: all-reduce in two levels.
//
// Goal:        keep most of the traffic inside the nodes, where the links are fast.
// Length:      about 20 lines
// Difficulty:  medium
// Check:       ./workbook check 02.6
// Hints:       ./workbook hint 02.6
// Targets:     2 (L-1) + 2 (P/L - 1) steps for L ranks per node;
//              2 n (P/L - 1)/P elements sent to other nodes per rank, for equal chunks: a ring over
//              all ranks sends L times as much across each node's network link;
//              ranks that do not fill the nodes are a ConfigError
//
// chapters/02_collectives/two_level_all_reduce.hpp declares the function. The rings of exercises 02.1
// to 02.3 take any Group: make one of the members on this rank's node, and one of those at its
// place of every node.
#include "chapters/02_collectives/two_level_all_reduce.hpp"

#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_all_reduce.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"
#include "common/base/errors.hpp"

namespace ultra::collectives {

// TODO 1: reject numbers that do not divide: say which.
// TODO 2: find this rank's node and its place in it, and make both groups. A Group holds the ranks of
//         its members, Group::at(position) of the group that it is a part of, and this rank's position.
// TODO 3: reduce-scatter inside, all-reduce of this place's chunk across, all-gather inside.
comm::Lane two_level_all_reduce([[maybe_unused]] const comm::Group& group,
                                [[maybe_unused]] Range range, [[maybe_unused]] int ranks_per_node) {
  throw NotWritten("02.6 two_level_all_reduce");
}

}  // namespace ultra::collectives
