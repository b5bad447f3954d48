// Exercise 11.4: choose between layouts.
//
// Goal:        choose the fastest layout that fits, for any cluster, and for one that is not the same
//              every day.
// Length:      about 45 lines
// Difficulty:  medium
// Check:       ./workbook check 11.4
// Hints:       ./workbook hint 11.4
// Targets:     the fastest per GPU; none that is impossible or too large; an error that says why none
//              will do; the smallest of the greatest losses
//
// chapters/11_five_d/planner/choose_layout.hpp declares the functions.
#include "chapters/11_five_d/planner/choose_layout.hpp"

#include "common/base/errors.hpp"

namespace ultra::planner {

// TODO 1: predict those that can be, and remember the best.
std::size_t choose_layout([[maybe_unused]] const Question& question,
                          [[maybe_unused]] std::span<const Layout> layouts) {
  throw NotWritten("11.4 choose_layout");
}

// TODO 2: what does each layout lose where another one is the best?
std::size_t choose_for_all([[maybe_unused]] std::span<const Question> days,
                           [[maybe_unused]] std::span<const Layout> layouts) {
  throw NotWritten("11.4 choose_layout");
}

}  // namespace ultra::planner
