// Exercise 10.1: from f32 to bf16.
//
// Goal:        round to the nearest bf16 number, and know what must not be rounded.
// Length:      about 8 lines
// Difficulty:  easy
// Check:       ./workbook check 10.1
// Hints:       ./workbook hint 10.1
// Targets:     every bf16 number as it is; nearest; ties to even; overflow to infinity; NaN that stays
//              NaN, whichever of its bits are set; subnormal numbers
//
// chapters/10_mixed_precision/bf16_rounding.hpp declares the function.
#include "chapters/10_mixed_precision/bf16_rounding.hpp"

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {

// TODO 1: which inputs may not be rounded?
// TODO 2: the nearest neighbour, with whole numbers only: no branch on the exponent is needed.
std::uint16_t bf16_from_f32([[maybe_unused]] float x) { throw NotWritten("10.1 bf16_rounding"); }

}  // namespace ultra::mixed_precision
