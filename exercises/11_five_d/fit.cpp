// Exercise 11.3: refuse or fit.
//
// Goal:        say whether a layout fits, and what would make it fit.
// Length:      about 35 lines
// Difficulty:  easy
// Check:       ./workbook check 11.3
// Hints:       ./workbook hint 11.3
// Targets:     the largest stage against the memory; the largest part, by its name in kMemoryParts;
//              the first cheaper layout that is possible and fits
//
// chapters/11_five_d/planner/fit.hpp declares the function, the names and cheaper_layouts().
#include "chapters/11_five_d/planner/fit.hpp"

#include "common/base/errors.hpp"

namespace ultra::planner {

// TODO: judge the layout, name what is largest, and look for the cheapest remedy.
Fit fit([[maybe_unused]] const Question& question, [[maybe_unused]] const Layout& layout) {
  throw NotWritten("11.3 fit");
}

}  // namespace ultra::planner
