// Exercise 11.2: the time of a step.
//
// Goal:        put a step together from what its parts take.
// Length:      about 45 lines
// Difficulty:  medium
// Check:       ./workbook check 11.2
// Hints:       ./workbook hint 11.2
// Targets:     the slowest stage for every micro-batch; the bubble once; messages and exchanges as
//              far as nothing hides them; the optimizer; the slowest rank
//
// chapters/11_five_d/planner/step_time.hpp declares the function; pipeline_parallel::bubble_seconds is
// in chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp. A plan takes bubble and messages
// from chapter 07's simulator instead, and sorts layouts by your form before: --mine shows little of
// those two.
#include "chapters/11_five_d/planner/step_time.hpp"

#include "common/base/errors.hpp"

namespace ultra::planner {

// TODO: passes, bubble, messages, data, optimizer, stragglers.
StepSeconds step_seconds([[maybe_unused]] const StepParts& parts) {
  throw NotWritten("11.2 step_time");
}

}  // namespace ultra::planner
