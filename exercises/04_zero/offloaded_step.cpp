// Exercise 04.9: the step on offloaded states.
//
// Goal:        update states that come block by block, while others are read and written.
// Length:      about 20 lines
// Difficulty:  medium
// Check:       ./workbook check 04.9
// Hints:       ./workbook hint 04.9
// Targets:     while block i is updated, block i + 1 is read and block i - 1 is written;
//              no buffer is read into while it is written from, and no block is read while it is
//              written, in the next step neither;
//              every block is read once and written once in each step
//
// chapters/04_zero/offload/offloaded_step.hpp declares the class, and members that suffice.
#include "chapters/04_zero/offload/offloaded_step.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: begin the reads of this block and of the next one, if there is one and as far as they
// have not begun in this step. A buffer must be free before something is read into it. Then wait
// for this block's read, and for no other.
std::size_t OffloadedStep::begin_block([[maybe_unused]] std::size_t block) {
  throw NotWritten("04.9 offloaded_step: begin_block");
}

// TODO 2: begin to write the block, and note that its buffer is not free.
void OffloadedStep::end_block([[maybe_unused]] std::size_t block) {
  throw NotWritten("04.9 offloaded_step: end_block");
}

// TODO 3: in the next step all blocks are read again. What must be waited for here?
void OffloadedStep::end_step() { throw NotWritten("04.9 offloaded_step: end_step"); }

// TODO 4: wait for all that is still being written.
void OffloadedStep::settle() { throw NotWritten("04.9 offloaded_step: settle"); }

// TODO 5: if a block is written from the buffer, wait for it, once.
void OffloadedStep::free_buffer([[maybe_unused]] std::size_t buffer) {
  throw NotWritten("04.9 offloaded_step: free_buffer");
}

}  // namespace ultra::zero
