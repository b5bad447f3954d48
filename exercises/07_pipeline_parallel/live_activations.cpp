// Exercise 07.6: activations that a rank keeps.
//
// Goal:        count what a schedule costs in memory.
// Length:      about 22 lines
// Difficulty:  medium
// Check:       ./workbook check 07.6
// Hints:       ./workbook hint 07.6
// Targets:     the most at a time, not those at the end;
//              activations that W still needs;
//              several chunks, several micro-batches;
//              in bytes: what B releases, and what W
//
// chapters/07_pipeline_parallel/schedule/live_activations.hpp declares the functions.
#include "chapters/07_pipeline_parallel/schedule/live_activations.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

// TODO 1: follow the list: which passes begin to keep activations, which are the last to need them?
std::size_t peak_live_activations([[maybe_unused]] std::span<const train::Action> list) {
  throw NotWritten("07.6 live_activations");
}

// TODO 2: W needs the inputs of linear layers, and no more: what softmax and norms have saved is
// not needed after B. And chunks differ.
double peak_saved_bytes([[maybe_unused]] std::span<const train::Action> list,
                        [[maybe_unused]] std::span<const SavedBytes> chunks) {
  throw NotWritten("07.6 live_activations");
}

}  // namespace ultra::pipeline_parallel
