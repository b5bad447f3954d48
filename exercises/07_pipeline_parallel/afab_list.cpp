// Exercise 07.1: all forward, all backward.
//
// Goal:        write down what a rank of the first pipeline schedule does, with one chunk of the
//              model and with several.
// Length:      about 15 lines
// Difficulty:  easy
// Check:       ./workbook check 07.1
// Hints:       ./workbook hint 07.1
// Targets:     every micro-batch once forward and once backward through every chunk;
//              all forward passes first;
//              micro-batches in their order, both times;
//              chunks one after the other, so that nobody waits for what comes later
// You will need: train::Action, with its kind, micro_batch and chunk
//              (common/train/step_schedule.hpp)
//
// chapters/07_pipeline_parallel/lists/afab_list.hpp declares the functions.
#include "chapters/07_pipeline_parallel/lists/afab_list.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

// TODO 1: all forward passes, then all backward passes, of chunk 0.
train::StepSchedule afab_list([[maybe_unused]] std::size_t micro_batches) {
  throw NotWritten("07.1 afab_list");
}

// TODO 2: the same for a rank that has several chunks. Draw two ranks with two chunks each: which
// chunk of which rank does the first backward pass of a micro-batch need? Which order is reversed
// on the way back, and which is not?
train::StepSchedule breadth_first_list([[maybe_unused]] std::size_t chunks,
                                       [[maybe_unused]] std::size_t micro_batches) {
  throw NotWritten("07.1 afab_list");
}

}  // namespace ultra::pipeline_parallel
