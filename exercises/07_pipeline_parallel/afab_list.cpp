// Exercise 07.1: all forward, all backward.
//
// Goal:        write down what a rank of the first pipeline schedule does.
// Length:      about 6 lines
// Difficulty:  easy
// Check:       ./workbook check 07.1
// Hints:       ./workbook hint 07.1
// Targets:     every micro-batch once forward and once backward;
//              all forward passes first;
//              micro-batches in their order, both times
//
// chapters/07_pipeline_parallel/lists/afab_list.hpp declares the function.
#include "chapters/07_pipeline_parallel/lists/afab_list.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

// TODO: all forward passes, then all backward passes: train::Action with its kind and micro-batch.
train::StepSchedule afab_list([[maybe_unused]] std::size_t micro_batches) {
  throw NotWritten("07.1 afab_list");
}

}  // namespace ultra::pipeline_parallel
