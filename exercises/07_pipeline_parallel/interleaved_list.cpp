// Exercise 07.3: interleaved 1F1B.
//
// Goal:        make the bubble smaller with several chunks of the model on each rank.
// Length:      about 30 lines
// Difficulty:  hard
// Check:       ./workbook check 07.3
// Hints:       ./workbook hint 07.3
// Targets:     every micro-batch once through every chunk, forward and back;
//              the bubble of stages that are as small as the chunks;
//              messages that travel while both ranks compute;
//              no more activations than that takes
//
// chapters/07_pipeline_parallel/lists/interleaved_list.hpp declares the function.
#include "chapters/07_pipeline_parallel/lists/interleaved_list.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

// TODO 1: the rank's n-th forward pass: `stages` micro-batches pass its first chunk, then the same
// ones its second chunk, ...; then the next `stages` micro-batches. The n-th backward pass
// likewise.
// TODO 2: the warm-up: how many forward passes come before the steady phase, which begins with a
// forward pass, followed by the first backward pass?
// TODO 3: the list, as in 1F1B.
train::StepSchedule interleaved_list([[maybe_unused]] const InterleavedRank& rank,
                                     [[maybe_unused]] std::size_t micro_batches) {
  throw NotWritten("07.3 interleaved_list");
}

}  // namespace ultra::pipeline_parallel
