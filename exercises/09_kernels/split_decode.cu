// Exercise 09.9: the attention of one query from the attentions of parts of its keys.
//
// Goal:        let many blocks work on one sequence, and put together what they found.
// Length:      about 40 lines
// Difficulty:  medium
// Check:       ./workbook check 09.9
// Hints:       ./workbook hint 09.9
// Targets:     sequences of any lengths, scores of any size; keys and values read once; nothing of a
//              part that a sequence does not have is read
//
// kernels/ladders/attention/attention_decode/attention_decode.hpp declares the launcher and what
// lies where; split_parts.cuh, beside it, is the first half: launch_parts().
//
// The emulator checks and counts what goes through ldg(), stg(), lds() and sts(), one of a kind per line,
// in kernels whose names end in _kernel. The check of this exercise refuses plain accesses.
#include "common/base/errors.hpp"
#include "kernels/ladders/attention/attention_decode/split_parts.cuh"

namespace ultra::kernels::attention_decode {
namespace {

// TODO 1: a kernel that makes a row of o from the rows of its parts: part_o and part_lse, which
// launch_parts() has written. Part p of a row lies behind part p - 1; there is room for
// count_parts(most_tokens) of them. How many does this sequence have?

// TODO 2: what is a part's share in the whole row? It cannot be the same for all parts: one may hold
// all the keys that matter. What have you used of each part but its output?

// TODO 3: round the row to bf16 and store it.

}  // namespace

// TODO 4: launch_parts(), and then launch() your kernel on enough blocks for every row.
template <>
void split<kExecutor>([[maybe_unused]] const Problem& problem,
                      [[maybe_unused]] const Queue& queue) {
  throw NotWritten("09.9 split_decode");
}

}  // namespace ultra::kernels::attention_decode
