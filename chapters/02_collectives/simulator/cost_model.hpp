#pragma once
/// @file
/// What collectives cost by closed form, and bandwidths as nccl-tests states them.
///
/// Legend: n ranks; S bytes of the whole array: what a rank ends with in an all-gather, has at first
/// in a reduce-scatter, and sends, its own part included, in an all-to-all; log n = log2 n rounded
/// up; alpha, beta, gamma as in LinkCost.
/// Every form is a + b S. The forms assume that the
/// links between any two ranks are equal and that messages do not share them; where sizes divide,
/// the link simulator finds the same seconds.
///
/// Sources: Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication Operations
/// in MPICH"; Chan et al. 2007, "Collective communication: theory, practice, and experience";
/// Patarasuk and Yuan 2009.

#include "chapters/02_collectives/simulator/link_cost.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::collectives {

/// @brief A time that is linear in the size: latency + seconds_per_byte * bytes.
struct CollectiveCost {
  double latency = 0.0;           ///< seconds that even an empty collective takes
  double seconds_per_byte = 0.0;  ///< of S

  /// @brief Seconds for S bytes.
  [[nodiscard]] double seconds(double bytes) const { return latency + seconds_per_byte * bytes; }
  /// @brief First the one, then the other.
  [[nodiscard]] CollectiveCost operator+(const CollectiveCost& next) const {
    return {latency + next.latency, seconds_per_byte + next.seconds_per_byte};
  }
  /// @brief The same on an array that is `share` as large.
  [[nodiscard]] CollectiveCost of_share(double share) const {
    return {latency, seconds_per_byte * share};
  }
  bool operator==(const CollectiveCost&) const = default;
};

// Reduce-scatter and all-gather -------------------------------------------------------------------

/// @brief Of the pairwise exchange, too. The formula is exercise 02.7; its ring_cost.hpp also knows
/// counts that do not divide.
[[nodiscard]] CollectiveCost ring_reduce_scatter_cost(int ranks, const LinkCost& link);
/// @brief The same without a reduction: exercise 02.7.
[[nodiscard]] CollectiveCost ring_all_gather_cost(int ranks, const LinkCost& link);
/// @brief log n alpha + (n-1)/n S (beta + gamma), for n a power of two.
[[nodiscard]] CollectiveCost recursive_halving_cost(int ranks, const LinkCost& link);
/// @brief log n alpha + (n-1)/n S beta, for n a power of two.
[[nodiscard]] CollectiveCost recursive_doubling_all_gather_cost(int ranks, const LinkCost& link);

// All-reduce --------------------------------------------------------------------------------------

/// @brief The two after each other (exercise 02.7); of the pairwise exchange, too.
[[nodiscard]] CollectiveCost ring_all_reduce_cost(int ranks, const LinkCost& link);
/// @brief log n (alpha + S beta + S gamma) for a power of two; else with the floor of log n, and
/// 2 alpha + 2 S beta + S gamma more, to fold the other ranks in and out.
[[nodiscard]] CollectiveCost recursive_doubling_all_reduce_cost(int ranks, const LinkCost& link);
/// @brief 2 log n alpha + 2 (n-1)/n S beta + (n-1)/n S gamma for a power of two; else for the
/// largest power of two below n, and 2 alpha + 2 S beta + S gamma more, to fold.
[[nodiscard]] CollectiveCost rabenseifner_all_reduce_cost(int ranks, const LinkCost& link);
/// @brief log n (2 alpha + 2 S beta + S gamma): reduce to one rank, broadcast from it.
[[nodiscard]] CollectiveCost binomial_all_reduce_cost(int ranks, const LinkCost& link);
/// @brief 4 (log n + k) (alpha + S/(2k) (beta + gamma / 2)), two trees with k segments of S/(2k)
/// each: about 2 S beta for large k, about 4 log n alpha for small S. An estimate: the two trees
/// share their ranks' links, and the simulation finds 0.25 to 1.4 times as much.
/// @param segments  k of each tree, at least 1.
/// Source: Sanders, Speck, Traff 2009, "Two-tree algorithms for full bandwidth broadcast,
/// reduction and scan".
[[nodiscard]] CollectiveCost double_tree_all_reduce_cost(int ranks, int segments,
                                                         const LinkCost& link);

/// @brief Reduce-scatter in rows of `columns` ranks, all-reduce of S / columns in columns of `rows`,
/// all-gather in rows: ring by ring, each with its own link.
///
/// Also the two-level all-reduce: a row is a node, and `between_rows` the link between nodes.
[[nodiscard]] CollectiveCost torus_2d_all_reduce_cost(int rows, int columns,
                                                      const LinkCost& between_rows,
                                                      const LinkCost& within_row);
/// @brief The same in three dimensions, all with one link; `size_x` changes fastest.
[[nodiscard]] CollectiveCost torus_3d_all_reduce_cost(int size_z, int size_y, int size_x,
                                                      const LinkCost& link);
/// @brief A ring all-reduce of S in every row, then one of S in every column.
[[nodiscard]] CollectiveCost mesh_2d_all_reduce_cost(int rows, int columns,
                                                     const LinkCost& between_rows,
                                                     const LinkCost& within_row);

// With a root -------------------------------------------------------------------------------------

/// @brief (n-1) (alpha + S beta): the root sends to each in turn.
[[nodiscard]] CollectiveCost linear_broadcast_cost(int ranks, const LinkCost& link);
/// @brief log n (alpha + S beta).
[[nodiscard]] CollectiveCost binomial_broadcast_cost(int ranks, const LinkCost& link);
/// @brief log n (alpha + S beta + S gamma).
[[nodiscard]] CollectiveCost binomial_reduce_cost(int ranks, const LinkCost& link);
/// @brief log n alpha + (n-1)/n S beta; of scatter, too. Exact for a power of two.
[[nodiscard]] CollectiveCost binomial_gather_cost(int ranks, const LinkCost& link);
/// @brief binomial_gather_cost for the scatter, then ring_all_gather_cost.
[[nodiscard]] CollectiveCost scatter_all_gather_broadcast_cost(int ranks, const LinkCost& link);
/// @brief ring_reduce_scatter_cost, then binomial_gather_cost.
[[nodiscard]] CollectiveCost reduce_scatter_gather_cost(int ranks, const LinkCost& link);

// All-to-all and barrier --------------------------------------------------------------------------

/// @brief (n-1) (alpha + S/n beta).
[[nodiscard]] CollectiveCost pairwise_all_to_all_cost(int ranks, const LinkCost& link);
/// @brief log n (alpha + S/2 beta) for a power of two; else each round sends the chunks whose
/// distance has its bit: between a third and a half of S on average.
[[nodiscard]] CollectiveCost bruck_all_to_all_cost(int ranks, const LinkCost& link);
/// @brief log n alpha.
[[nodiscard]] CollectiveCost dissemination_barrier_cost(int ranks, const LinkCost& link);

// Bandwidth ---------------------------------------------------------------------------------------

/// @brief The factor from algorithm to bus bandwidth: 2 (n-1)/n for all_reduce; (n-1)/n for
/// reduce_scatter, all_gather, all_to_all, gather and scatter; 1 for broadcast, reduce and send;
/// 0 for what moves no data. 0 for one rank wherever the factor depends on n.
///
/// It makes the bus bandwidth of the best possible algorithm that of the links, whatever n.
/// Source: NVIDIA nccl-tests, doc/PERFORMANCE.md.
[[nodiscard]] double bus_factor(OpKind op, int ranks);

/// @brief S / t, bytes per second.
[[nodiscard]] double algorithm_bandwidth(double bytes, double seconds);

/// @brief S / t times bus_factor(), bytes per second.
[[nodiscard]] double bus_bandwidth(OpKind op, int ranks, double bytes, double seconds);

}  // namespace ultra::collectives
