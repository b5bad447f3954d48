#pragma once
/// @file
/// Reduce-scatter, all-gather and all-reduce on a hypercube: log2 P steps instead of P - 1.
///
/// Exercise 02.4 (`./workbook check 02.4`). Body: solutions/02_collectives/halving_doubling.cpp.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief Reduce-scatter by recursive halving: position i ends with chunk i reduced, in place.
///
/// Each position works on a window of chunks, all of them at first. Every step halves it: the
/// partner is half a window away, each sends the half that the other keeps, and combines its own.
/// @pre chunks.size() == group.size().
/// @throws ConfigError when group.size() is not a power of two.
/// Cost: log2 P steps; n (P-1)/P elements sent per rank for equal chunks.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
[[nodiscard]] comm::Lane recursive_halving_reduce_scatter(const comm::Group& group,
                                                          const comm::Chunks& chunks);

/// @brief All-gather by recursive doubling: position i holds chunk i, all end with all chunks.
///
/// The way of recursive halving backwards: each step doubles the window of chunks that a position
/// holds, by exchanging it with the partner's.
/// @pre chunks.size() == group.size().
/// @throws ConfigError when group.size() is not a power of two.
/// Cost: log2 P steps; n (P-1)/P elements sent per rank for equal chunks.
/// Source: Thakur, Rabenseifner, Gropp 2005.
[[nodiscard]] comm::Lane recursive_doubling_all_gather(const comm::Group& group,
                                                       const comm::Chunks& chunks);

/// @brief All-reduce: recursive halving, then recursive doubling.
/// @pre chunks.size() == group.size().
/// @throws ConfigError when group.size() is not a power of two.
/// Cost: 2 log2 P steps; 2 n (P-1)/P elements sent per rank for equal chunks.
/// Source: Rabenseifner 2004, "Optimization of collective reduction operations"; Thakur,
/// Rabenseifner, Gropp 2005.
[[nodiscard]] comm::Lane halving_doubling_all_reduce(const comm::Group& group,
                                                     const comm::Chunks& chunks);

}  // namespace ultra::collectives
