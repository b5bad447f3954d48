#pragma once
/// @file
/// Stochastic rounding to bf16: up or down by chance, and right on average.
///
/// A weight of bf16 that gets an update of less than half its last place never moves when every sum
/// is rounded to nearest. If chance decides, with odds that follow the distance to the two neighbours,
/// small updates arrive on average. A number that bf16 has stays what it is, whatever the chance says.
///
/// Exercise 10.6 (`./workbook check 10.6`).
/// Body: solutions/10_mixed_precision/stochastic_rounding.cpp.
/// Source: Gupta et al. 2015, "Deep learning with limited numerical precision", arXiv 1502.02551,
/// sec. 3.1; for weights of bf16, Zamirai et al. 2020, arXiv 2010.06192, sec. 3.

#include <cstdint>
#include <span>

#include "common/tensor/half_types.hpp"
#include "common/tensor/philox.hpp"

namespace ultra::mixed_precision {

/// @brief One of the two bf16 neighbours of x, so that the mean over all `random` is x exactly.
/// @param x       any f32. Infinity and NaN stay; beyond the largest number lies infinity.
/// @param random  uniform over all 65,536 values: the same x and `random` give the same bits.
/// @return the bits of a bf16 number.
[[nodiscard]] std::uint16_t bf16_stochastic(float x, std::uint16_t random);

/// @brief Rounds numbers to bf16 by chance, keyed by their index: the same in every layout.
/// @param out           as many as x.
/// @param random        names what is rounded: of the seed, the weight and the step.
/// @param first_index   of x[0] among the weight's elements.
void round_stochastically(std::span<const float> x, std::span<BFloat16> out,
                          const PhiloxStream& random, std::uint64_t first_index);

}  // namespace ultra::mixed_precision
