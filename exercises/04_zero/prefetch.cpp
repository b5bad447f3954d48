// Exercise 04.5: prefetch.
//
// Goal:        gather the next units while this one computes.
// Length:      about 30 lines
// Difficulty:  medium
// Check:       ./workbook check 04.5
// Hints:       ./workbook hint 04.5
// Targets:     every unit is there when it is used, and is gathered twice per micro-batch (once, when it
//              is kept after its forward pass);
//              when a use begins, the units of the next `ahead` uses have been asked for;
//              after the backward pass of a unit it is released, and so is every unit in the end
//
// chapters/04_zero/prefetch.hpp declares the class, and members that suffice.
#include "chapters/04_zero/prefetch.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: uses 0 to U-1 are the forward passes of units 0 to U-1; uses U to 2 U - 1 are the backward
// passes of units U-1 to 0.
std::size_t Prefetch::unit_of([[maybe_unused]] std::size_t use) const {
  throw NotWritten("04.5 prefetch: unit_of");
}

// TODO 2: ask for the units of this use and of the next ahead_ uses, but not for those that were asked
// for already; then wait for the unit of this use. There is no use after 2 U - 1.
void Prefetch::begin_use([[maybe_unused]] std::size_t use) {
  throw NotWritten("04.5 prefetch: begin_use");
}

// TODO 3: which use is this? After a backward pass has begun, a forward pass is a recomputation for the
// backward pass of the same unit.
void Prefetch::before_forward([[maybe_unused]] std::size_t unit) {
  throw NotWritten("04.5 prefetch: before_forward");
}

// TODO 4: release the unit, unless it stays (Reshard::kAfterBackward) or was recomputed.
void Prefetch::after_forward([[maybe_unused]] std::size_t unit) {
  throw NotWritten("04.5 prefetch: after_forward");
}

// TODO 5: the backward pass has begun; use 2 U - 1 - unit begins.
void Prefetch::before_backward([[maybe_unused]] std::size_t unit) {
  throw NotWritten("04.5 prefetch: before_backward");
}

// TODO 6: release the unit. After the last one the next micro-batch begins.
void Prefetch::after_backward([[maybe_unused]] std::size_t unit) {
  throw NotWritten("04.5 prefetch: after_backward");
}

// TODO 7: note that the unit is not there any more, and call the action.
void Prefetch::release([[maybe_unused]] std::size_t unit) {
  throw NotWritten("04.5 prefetch: release");
}

}  // namespace ultra::zero
