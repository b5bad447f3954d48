// Exercise 07.2: 1F1B.
//
// Goal:        pass micro-batches backward as soon as they come back.
// Length:      about 15 lines
// Difficulty:  medium
// Check:       ./workbook check 07.2
// Hints:       ./workbook hint 07.2
// Targets:     the bubble of AFAB on any number of stages;
//              no more activations on a stage than it needs for that;
//              fewer micro-batches than stages, too
//
// chapters/07_pipeline_parallel/lists/one_f_one_b_list.hpp declares the function.
#include "chapters/07_pipeline_parallel/lists/one_f_one_b_list.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

// TODO 1: warm-up: how many micro-batches pass forward before the steady phase begins?
// TODO 2: steady phase: one forward pass and then one backward pass, in turn, until the last
// micro-batch has passed forward.
// TODO 3: what is left passes backward.
train::StepSchedule one_f_one_b_list([[maybe_unused]] std::size_t stage,
                                     [[maybe_unused]] std::size_t stages,
                                     [[maybe_unused]] std::size_t micro_batches) {
  throw NotWritten("07.2 one_f_one_b_list");
}

}  // namespace ultra::pipeline_parallel
