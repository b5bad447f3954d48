// Exercise 03.4: when is a gradient complete?
//
// Goal:        let a share of any size pass in micro-batches, and communicate once.
// Length:      about 6 lines
// Difficulty:  easy
// Check:       ./workbook check 03.4
// Hints:       ./workbook hint 03.4
// Targets:     losses and gradients of one rank within 1e-10 in f64, for every micro-batch size;
//              bytes sent per step: those of one micro-batch, however many there are;
//              the last contribution in every schedule: with several chunks, and with B and W apart
//
// chapters/03_data_parallel/gradient_completion.hpp declares the function;
// common/train/step_schedule.hpp says what a schedule and its actions are.
#include "chapters/03_data_parallel/gradient_completion.hpp"

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

// TODO: which action of the schedule is the last that adds to the gradients of one of these chunks?
// Throw InternalError when there is none.
std::size_t completing_action([[maybe_unused]] std::span<const train::Action> schedule,
                              [[maybe_unused]] std::span<const std::size_t> chunks) {
  throw NotWritten("03.4 gradient_completion");
}

}  // namespace ultra::data_parallel
