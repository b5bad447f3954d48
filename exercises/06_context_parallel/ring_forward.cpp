// Exercise 06.3: the ring, forward.
//
// Goal:        attend to the keys that are here while the next ones travel.
// Length:      about 25 lines
// Difficulty:  medium
// Check:       ./workbook check 06.3
// Hints:       ./workbook hint 06.3
// Targets:     attention over all ranks' keys, each rank's seen once, under its tokens;
//              one message per rank between a step and the next; while a block is computed, another travels;
//              never more than two pairs of keys and values in memory, besides its own
// You will need: KvBlock (chapters/06_context_parallel/kv_block.hpp), keys and values in one
//              message; ring.ranks.ring_shift() (common/comm/communicator.hpp), which sends to the
//              next rank, or some ranks on, and receives from as far before; wait() of the Work that
//              it returns; queries.steps_of(ring.chunks), the steps in which somebody sees something
//
// chapters/06_context_parallel/ring_forward.hpp declares the functions.
#include "chapters/06_context_parallel/ring_forward.hpp"

#include "chapters/06_context_parallel/kv_block.hpp"
#include "common/base/errors.hpp"

namespace ultra::context_parallel {

// TODO 1: begin with attention over nothing, and with a KvBlock of this rank's keys and values.
// TODO 2: in each step begin to pass on what is here, and to receive the next; attend meanwhile. In the
// last step nobody needs another one.
// TODO 3: the steps are 0 to N - 1, but for those that a window leaves empty: go over them at once.
PartialAttention ring_forward([[maybe_unused]] const BlockAttention& queries,
                              [[maybe_unused]] const KeyValues& own,
                              [[maybe_unused]] const SequenceGroup& ring) {
  throw NotWritten("06.3 ring_forward");
}

}  // namespace ultra::context_parallel
