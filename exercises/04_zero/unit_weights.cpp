// Exercise 04.4: the weights of ZeRO-3, gathered and released.
//
// Goal:        let a unit of weights be there while it computes, and only then.
// Length:      about 15 lines
// Difficulty:  easy
// Check:       ./workbook check 04.4
// Hints:       ./workbook hint 04.4
// Targets:     after wait() every parameter of the unit has the weights that all ranks' shards
//              hold;
//              after release() none has, and the memory is free;
//              (N-1)/N bytes of the unit sent per rank and gather
//
// chapters/04_zero/unit_weights.hpp declares the class, and members that suffice.
#include "chapters/04_zero/unit_weights.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: take memory for the whole unit (MemoryCategory::kCommunication) and begin to all-gather
// the shards into it. It must not be there yet: ensure().
void UnitWeights::start_gather() { throw NotWritten("04.4 unit_weights: start_gather"); }

// TODO 2: wait; then let each parameter of the group have its part of the array as its value.
void UnitWeights::wait() { throw NotWritten("04.4 unit_weights: wait"); }

// TODO 3: take the values away from the parameters, and let go of the memory.
void UnitWeights::release() { throw NotWritten("04.4 unit_weights: release"); }

}  // namespace ultra::zero
