// Exercise 10.2: from f32 to fp8 e4m3.
//
// Goal:        round to eight bits, and stay in their range.
// Length:      about 15 lines
// Difficulty:  medium
// Check:       ./workbook check 10.2
// Hints:       ./workbook hint 10.2
// Targets:     all 256 codes; nearest, ties to even; subnormal numbers; saturation at 448; NaN; -0
//
// chapters/10_mixed_precision/e4m3_saturation.hpp declares the function.
#include "chapters/10_mixed_precision/e4m3_saturation.hpp"

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {

// TODO 1: the sign, and NaN.
// TODO 2: what is the last place of an e4m3 number near x? How many of them is x?
// TODO 3: the code, from the exponent and that number of steps; no higher than the largest.
std::uint8_t e4m3_from_f32([[maybe_unused]] float x) { throw NotWritten("10.2 e4m3_saturation"); }

}  // namespace ultra::mixed_precision
