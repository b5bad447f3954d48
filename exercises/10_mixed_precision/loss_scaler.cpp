// Exercise 10.3: the dynamic loss scaler.
//
// Goal:        find the largest factor on the loss whose gradients f16 can hold, and skip a step
//              that overflowed.
// Length:      about 20 lines
// Difficulty:  easy
// Check:       ./workbook check 10.3
// Hints:       ./workbook hint 10.3
// Targets:     infinity and NaN are an overflow, on whichever rank; norm and factor without the
//              scale; a smaller scale after an overflow, which counts as skipped; a larger one
//              after enough good steps in a row
//
// chapters/10_mixed_precision/loss_scaler.hpp declares the functions.
#include "chapters/10_mixed_precision/loss_scaler.hpp"

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {

// TODO 1: what the gradients of the loss itself are like. One rank may have found an infinity and
// another none: why do both skip the step, although no rank asks the other?
UnscaledGradients unscale([[maybe_unused]] double scaled_norm, [[maybe_unused]] double scale) {
  throw NotWritten("10.3 loss_scaler");
}

// TODO 2: the scale after a step.
LossScale next_loss_scale([[maybe_unused]] const LossScale& now, [[maybe_unused]] bool overflow,
                          [[maybe_unused]] const LossScaleRule& rule) {
  throw NotWritten("10.3 loss_scaler");
}

}  // namespace ultra::mixed_precision
