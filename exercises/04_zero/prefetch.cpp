// Exercise 04.5: prefetch.
//
// Goal:        gather the next units while this one computes.
// Length:      about 20 lines
// Difficulty:  medium
// Check:       ./workbook check 04.5
// Hints:       ./workbook hint 04.5
// Targets:     when a use begins, its unit is there, and those of the next `ahead` uses have been
//              asked for, each once;
//              with Reshard::kAfterForward a unit is released after each use, but not between a
//              recomputation and its backward pass, nor when its backward pass is the next use;
//              with Reshard::kAfterBackward it stays until no micro-batch under way needs it
//
// chapters/04_zero/prefetch.hpp declares the class, and members that suffice; prefetch.cpp beside
// it has those that say which use begins and ends.
#include "chapters/04_zero/prefetch.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: ask_for() this use and the next ahead_ uses of the step; then wait for the unit of this
// use. A backward pass whose unit was just computed again needs no other unit: it does not count.
// There is no use after the last one.
void Prefetch::begin_use([[maybe_unused]] std::size_t use) {
  throw NotWritten("04.5 prefetch: begin_use");
}

// TODO 2: must the unit of this use, which is over, stay? The one with which the backward pass
// begins was the last one forward: it stays between forward and backward. Called once for every
// use: keep count in forwards_ of the forward passes whose backward pass is still to come.
bool Prefetch::stays([[maybe_unused]] std::size_t use) { throw NotWritten("04.5 prefetch: stays"); }

}  // namespace ultra::zero
