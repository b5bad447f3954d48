// Exercise 06.4: the ring, backward.
//
// Goal:        let keys, values and the sums of their gradients pass by, and come home.
// Length:      about 40 lines
// Difficulty:  hard
// Check:       ./workbook check 06.4
// Hints:       ./workbook hint 06.4
// Targets:     the gradients of attention over all keys on one rank;
//              no message too many; none that waits for a block in vain
// You will need: what 06.3 needs, and ops::add_into() (common/ops/elementwise.hpp)
//
// chapters/06_context_parallel/ring_backward.hpp declares the functions.
#include "chapters/06_context_parallel/ring_backward.hpp"

#include "chapters/06_context_parallel/kv_block.hpp"
#include "common/base/errors.hpp"
#include "common/ops/elementwise.hpp"

namespace ultra::context_parallel {

// TODO 1: keys and values travel as they did forward.
// TODO 2: add this rank's gradients to the sum that has arrived with them, and pass the sum on. How many
// hops is it from the last rank that adds to the one that owns the keys? (One, unless a window leaves the
// last steps empty.)
nn::QkvGradients ring_backward([[maybe_unused]] const BlockAttention& queries,
                               [[maybe_unused]] const Tensor& d_output,
                               [[maybe_unused]] const PartialAttention& whole,
                               [[maybe_unused]] const KeyValues& own,
                               [[maybe_unused]] const SequenceGroup& ring) {
  throw NotWritten("06.4 ring_backward");
}

}  // namespace ultra::context_parallel
