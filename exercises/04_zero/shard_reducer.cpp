// Exercise 04.3: the bucketed reduce-scatter of ZeRO-2.
//
// Goal:        keep shards of gradients, and never more than two groups of whole ones.
// Length:      about 30 lines
// Difficulty:  medium
// Check:       ./workbook check 04.3
// Hints:       ./workbook hint 04.3
// Targets:     the sums over the ranks and over the passes;
//              (N-1)/N bytes of all groups sent per rank and pass;
//              memory for two groups at most, and for the shards; with Overlap::kOff for one
// You will need: shard_range() (chapters/04_zero/flat_layout.hpp), a reduce-scatter in place
//              (common/comm/communicator.hpp), ops::add_into() (common/ops/elementwise.hpp)
//
// chapters/04_zero/shard_reducer.hpp declares the class, and members that suffice.
#include "chapters/04_zero/shard_reducer.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: take groups in until at most one is under way. Then take memory for this one
// (MemoryCategory::kCommunication), with zeros in its padding, and remember it in open_.
Tensor ShardReducer::open([[maybe_unused]] std::size_t group) {
  throw NotWritten("04.3 shard_reducer: open");
}

// TODO 2: begin to reduce-scatter what open_ holds, in place, and put it at the end of
// under_way_. open_ must not keep the memory alive. With Overlap::kOff nothing stays under way.
void ShardReducer::flush([[maybe_unused]] std::size_t group) {
  throw NotWritten("04.3 shard_reducer: flush");
}

// TODO 3: wait for the first group of under_way_ and remove it. Its sum becomes the shard
// (MemoryCategory::kGradients), or is added to the shard that an earlier pass left.
void ShardReducer::drain_oldest() { throw NotWritten("04.3 shard_reducer: drain_oldest"); }

// TODO 4: take in all that is under way.
void ShardReducer::finish() { throw NotWritten("04.3 shard_reducer: finish"); }

}  // namespace ultra::zero
