// Exercise 11.4: choose between layouts.
//
// Goal:        choose the fastest layout that fits, for any cluster.
// Length:      about 30 lines
// Difficulty:  easy
// Check:       ./workbook check 11.4
// Hints:       ./workbook hint 11.4
// Targets:     the fastest per GPU; none that is impossible or too large; an error that says why none
//              will do
//
// chapters/11_five_d/planner/choose_layout.hpp declares the functions.
#include "chapters/11_five_d/planner/choose_layout.hpp"

#include "common/base/errors.hpp"

namespace ultra::planner {

// TODO: predict those that can be, and remember the best.
std::size_t choose_layout([[maybe_unused]] const Question& question,
                          [[maybe_unused]] std::span<const Layout> layouts) {
  throw NotWritten("11.4 choose_layout");
}

}  // namespace ultra::planner
