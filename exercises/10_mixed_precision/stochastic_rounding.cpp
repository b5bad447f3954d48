// Exercise 10.6: stochastic rounding.
//
// Goal:        let updates smaller than the last place arrive, on average.
// Length:      about 6 lines
// Difficulty:  easy
// Check:       ./workbook check 10.6
// Hints:       ./workbook hint 10.6
// Targets:     bf16 numbers as they are, for every random number; one of the two neighbours; the mean
//              over all random numbers, exactly; negative numbers; infinity and NaN
//
// chapters/10_mixed_precision/stochastic_rounding.hpp declares the function.
#include "chapters/10_mixed_precision/stochastic_rounding.hpp"

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {

// TODO 1: what is not rounded.
// TODO 2: of the 65,536 random numbers, how many should lead away from zero?
std::uint16_t bf16_stochastic([[maybe_unused]] float x, [[maybe_unused]] std::uint16_t random) {
  throw NotWritten("10.6 stochastic_rounding");
}

}  // namespace ultra::mixed_precision
