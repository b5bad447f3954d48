// Exercise 07.6: activations that a rank keeps.
//
// Goal:        count what a schedule costs in memory.
// Length:      about 8 lines
// Difficulty:  easy
// Check:       ./workbook check 07.6
// Hints:       ./workbook hint 07.6
// Targets:     the most at a time, not those at the end;
//              activations that W still needs;
//              several chunks, several micro-batches
//
// chapters/07_pipeline_parallel/schedule/live_activations.hpp declares the function.
#include "chapters/07_pipeline_parallel/schedule/live_activations.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

// TODO: follow the list: which passes begin to keep activations, which are the last to need them?
std::size_t peak_live_activations([[maybe_unused]] std::span<const train::Action> list) {
  throw NotWritten("07.6 live_activations");
}

}  // namespace ultra::pipeline_parallel
