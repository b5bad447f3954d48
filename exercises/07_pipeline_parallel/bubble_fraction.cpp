// Exercise 07.5: the bubble.
//
// Goal:        say how much of a step a rank waits, before anything has run.
// Length:      about 30 lines
// Difficulty:  hard
// Check:       ./workbook check 07.5
// Hints:       ./workbook hint 07.5
// Targets:     seconds of every published schedule, for any costs that it is made for;
//              over the ideal time, and over the whole step
//
// Read chapters/07_pipeline_parallel/zero_bubble/zero_bubble.md first: it has the pictures, and the
// table of DualPipe-V's authors, in letters of their own.
// chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp declares the functions.
#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

// TODO 1: count the passes that a rank waits for until the first micro-batch reaches it, and after
// its last one; those that it fills with W do not count.
double bubble_seconds([[maybe_unused]] const ScheduleChoice& choice,
                      [[maybe_unused]] const PipelineShape& shape,
                      [[maybe_unused]] const PartCost& part, [[maybe_unused]] double overlapped) {
  throw NotWritten("07.5 bubble_fraction: bubble_seconds");
}

// TODO 2: the rank works on every micro-batch in every one of its chunks.
double bubble_over_ideal([[maybe_unused]] const ScheduleChoice& choice,
                         [[maybe_unused]] const PipelineShape& shape,
                         [[maybe_unused]] const PartCost& part) {
  throw NotWritten("07.5 bubble_fraction: bubble_over_ideal");
}

// TODO 3: with the bubble b and the ideal time t, r = b / t is given. What is b / (t + b)?
double bubble_over_total([[maybe_unused]] double bubble_over_ideal) {
  throw NotWritten("07.5 bubble_fraction: bubble_over_total");
}

}  // namespace ultra::pipeline_parallel
