// Exercise 05.4: the region of sequence parallelism.
//
// Goal:        let each rank keep its part of every sequence, for half an all-reduce at each border.
// Length:      about 20 lines
// Difficulty:  medium
// Check:       ./workbook check 05.4
// Hints:       ./workbook hint 05.4
// Targets:     enter() and leave_backward() give all tokens, each sequence in its order;
//              leave() and enter_backward() give the sum of all ranks' parts, of this rank's tokens;
//              (N-1)/N of batch * seq * hidden elements sent per call: half of an all-reduce;
//              each of the four returns while communication is under way
//
// chapters/05_tensor_sequence_parallel/sequence_region.hpp declares the class, and the two functions
// that put sequences in order; region.hpp says what the four functions promise.
#include "chapters/05_tensor_sequence_parallel/sequence_region.hpp"

#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {

// TODO 1: begin to bring all ranks' tokens here; what has arrived is put in order by Pending.
Pending SequenceRegion::enter([[maybe_unused]] const Tensor& x) {
  throw NotWritten("05.4 sequence_region: enter");
}

// TODO 2: begin to add up all ranks' parts, of which this rank gets the sum for its tokens.
Pending SequenceRegion::enter_backward([[maybe_unused]] const Tensor& d_x) {
  throw NotWritten("05.4 sequence_region: enter_backward");
}

// TODO 3: after the split matrices. What is here is this rank's part of the sum for all tokens.
Pending SequenceRegion::leave([[maybe_unused]] const Tensor& y) {
  throw NotWritten("05.4 sequence_region: leave");
}

// TODO 4: its backward pass.
Pending SequenceRegion::leave_backward([[maybe_unused]] const Tensor& d_y) {
  throw NotWritten("05.4 sequence_region: leave_backward");
}

}  // namespace ultra::tensor_parallel
