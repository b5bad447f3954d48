#pragma once
/// @file
/// LinkCost: what one message costs, in the three numbers that every cost model of chapter 02 uses.

namespace ultra::collectives {

/// @brief A message of S bytes takes alpha + S beta seconds; reducing it takes another S gamma.
///
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of Collective Communication
/// Operations in MPICH", sec. 3.
struct LinkCost {
  double alpha = 0.0;  ///< seconds per message, whatever its size: the latency
  double beta = 0.0;   ///< seconds per byte sent: one over the bandwidth
  double gamma = 0.0;  ///< seconds per byte reduced, on top of sending it

  /// @brief Equal when all three numbers are.
  bool operator==(const LinkCost&) const = default;
};

}  // namespace ultra::collectives
