#pragma once
/// @file
/// Dispatch counts: how many rows travel to, and come from, the ranks that hold the experts.
///
/// Without a capacity no rank knows in advance how many tokens an expert gets. So before the rows
/// travel, their counts do: the first, small all-to-all of every dispatch. What arrives is in the
/// order of the ranks, and within a rank's rows in that of the experts; grouped products need it
/// expert by expert over all ranks. The same counts say where each segment of rows moves.
///
/// Exercise 08.3 (`./workbook check 08.3`). Body: solutions/08_expert_parallel/dispatch_counts.cpp.
/// Source: He et al. 2021, "FastMoE", arXiv 2103.13262, for the exchange (its expert_exchange); Gale
/// et al. 2023, "MegaBlocks", arXiv 2211.15841, for counts that vary.

#include <cstddef>
#include <span>
#include <vector>

#include "common/comm/communicator.hpp"

namespace ultra::expert_parallel {

/// @brief Rows of one exchange, as this rank sends and receives them.
struct DispatchCounts {
  std::vector<std::size_t> send_rows;     ///< [ranks] rows for the experts of each rank
  std::vector<std::size_t> receive_rows;  ///< [ranks] rows from each rank, for this one's experts
  std::vector<std::size_t>
      received;  ///< [ranks, local experts] those rows, by the expert they are for

  /// @brief Experts that this rank has.
  [[nodiscard]] std::size_t local_experts() const { return received.size() / send_rows.size(); }
  /// @brief [local experts] rows that each of them gets, from all ranks.
  [[nodiscard]] std::vector<std::size_t> rows_per_local_expert() const;
  bool operator==(const DispatchCounts&) const = default;
};

/// @brief The counts of an exchange when both sides are known.
/// @param rows_per_expert  [experts] rows that this rank sends.
/// @param received         [ranks, experts / ranks] rows that it gets.
[[nodiscard]] DispatchCounts counts_of(std::span<const std::size_t> rows_per_expert,
                                       std::vector<std::size_t> received, std::size_t ranks);

/// @brief Tells every rank how many rows it will get for each of its experts, and learns the same.
/// @param rows_per_expert  [experts] rows that this rank has for each; a multiple of the ranks:
/// rank r holds the experts of part r of as many equal parts.
/// @param ep               the ranks that hold the experts.
/// Collective over ep.
/// Cost: an all-to-all of one i32 per expert.
[[nodiscard]] DispatchCounts dispatch_counts(std::span<const std::size_t> rows_per_expert,
                                             const Communicator& ep);

/// @brief What arrives, in segments: the rows of one rank for one expert.
struct RowSegments {
  std::vector<std::size_t> rows;        ///< [ranks, local experts] of each segment
  std::vector<std::size_t> by_ranks;    ///< likewise, its first row as it arrives
  std::vector<std::size_t> by_experts;  ///< likewise, its first row in the order of the experts
  bool operator==(const RowSegments&) const = default;
};

/// @brief The segments of an exchange. In both orders they stand without gaps; in that of the experts,
/// an expert's segments come in the order of the ranks.
[[nodiscard]] RowSegments row_segments(const DispatchCounts& counts);

}  // namespace ultra::expert_parallel
