#pragma once
/// @file
/// Which rank makes which matrix whole.

#include <cstddef>
#include <span>
#include <vector>

namespace ultra::zero {

/// @brief Deals matrices out to ranks so that each has about as much to compute: the most expensive one
/// first, always to the rank that has least so far, the first of several.
///
/// The rank with most has less than 4/3 of the best that any dealing can do.
/// @param costs  of each matrix: operations of its Newton-Schulz steps.
/// @param ranks  at least 1.
/// @return the rank of each matrix; the same on all ranks, each of which computes it.
/// Source: Graham 1969, "Bounds on multiprocessing timing anomalies", theorem 2.
[[nodiscard]] std::vector<int> matrix_owners(std::span<const std::size_t> costs, int ranks);

}  // namespace ultra::zero
