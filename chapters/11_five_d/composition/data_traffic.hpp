#pragma once
/// @file
/// What the data groups of any mesh send in a step, by closed form.
///
/// Legend: a group of D ranks, S of them share one copy of the states (D without ZeRO), R = D / S
/// copies; m micro-batches; n elements of an array with its padding. Per array, by all ranks of a
/// group together, in elements:
///
/// | --zero | gradients                     | weights                                        |
/// |--------|-------------------------------|------------------------------------------------|
/// | 0      | 2 (D - 1) n                   |                                                |
/// | 1      | (S - 1) n + 2 (R - 1) n       | (S - 1) n                                      |
/// | 2      | m (S - 1) n + 2 (R - 1) n     | (S - 1) n                                      |
/// | 3      | m (S - 1) n + 2 (R - 1) n     | (S - 1) n, as often as the schedule gathers it |
///
/// with one factor R more on what the ranks of a copy do among themselves.

#include <cstddef>

#include "common/train/program/technique.hpp"

namespace ultra::five_d {

/// @brief Elements that all ranks together send over dp x cp, and over ranks with the same experts.
[[nodiscard]] std::size_t data_elements(const train::Setup& setup);

}  // namespace ultra::five_d
