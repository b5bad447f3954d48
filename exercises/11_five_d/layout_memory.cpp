// Exercise 11.1: the memory of a layout.
//
// Goal:        add up what a rank of a stage needs at the worst moment of a step.
// Length:      about 45 lines
// Difficulty:  medium
// Check:       ./workbook check 11.1
// Hints:       ./workbook hint 11.1
// Targets:     states over the ranks that share them; experts over fewer; the micro-batches under
//              way; tables on the first and last stage; one block that is computed again
//
// chapters/11_five_d/planner/layout_memory.hpp declares the function and names every form that it
// needs; include chapters/04_zero/zero_memory.hpp and
// chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp beside it.
#include "chapters/11_five_d/planner/layout_memory.hpp"

#include "common/base/errors.hpp"

namespace ultra::planner {

// TODO: states, activations, what exists for a moment, overhead.
StageMemory stage_memory([[maybe_unused]] const Question& question,
                         [[maybe_unused]] const Layout& layout,
                         [[maybe_unused]] const std::vector<std::size_t>& blocks,
                         [[maybe_unused]] std::size_t stage) {
  throw NotWritten("11.1 layout_memory");
}

}  // namespace ultra::planner
