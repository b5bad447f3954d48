#pragma once
/// @file
/// What ZeRO-3 and ZeRO++ send: bytes of one rank, to the byte, and the paper's table.
///
/// Legend: N ranks, n of them in each of K = N / n nodes; s bytes of a rank's shard of a unit, w of
/// the same shard as it travels when weights are gathered, g as it travels when gradients are reduced:
/// s or quantized_bytes(). Per unit and micro-batch a rank sends
///
/// |                          | in all                | of which to other nodes                |
/// |--------------------------|-----------------------|----------------------------------------|
/// | gather, forward          | (N-1) w               | the same for a node's last rank, else 0 |
/// | gather, backward         | (N-1) w               | likewise                               |
/// | gather, backward, hpZ    | (n-1) K w             | 0                                      |
/// | reduction                | (N-1) s               | (N-n) s                                |
/// | reduction, qgZ, one step | (N-1) g               | (N-n) g                                |
/// | reduction, qgZ, nodes    | (n-1) K g + (K-1) g   | (K-1) g                                |
///
/// At the forward-backward boundary the head is still there: it is gathered once.
///
/// The gathers are rings: one link leaves each node. The reductions are pairwise exchanges, which is
/// `--reduce-scatter pairwise`: everybody sends to everybody. Padding and scales are in s, w and g.

#include <cstddef>
#include <span>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/04_zero/flat_layout.hpp"
#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::zero {

/// @brief Bytes that one rank sends.
struct SentBytes {
  std::size_t total = 0;    ///< to any other rank
  std::size_t between = 0;  ///< of these: to ranks of other nodes

  /// @brief Adds both.
  SentBytes& operator+=(const SentBytes& more) {
    total += more.total;
    between += more.between;
    return *this;
  }
  bool operator==(const SentBytes&) const = default;
};

/// @brief Bytes that one rank sends in one micro-batch, by what for.
struct StepVolume {
  SentBytes forward;   ///< gathers of weights for the forward pass
  SentBytes backward;  ///< gathers of weights for the backward pass
  SentBytes reduce;    ///< reductions of gradients

  /// @brief All together.
  [[nodiscard]] SentBytes total() const {
    SentBytes sum = forward;
    sum += backward;
    sum += reduce;
    return sum;
  }
};

/// @brief A rank among others, in nodes of how.node_size consecutive ranks; absent: one node of all.
struct RankOfMany {
  int rank = 0;   ///< from 0
  int ranks = 1;  ///< N
};

/// @brief What a rank of ZeRO-3 or ZeRO++ sends in one micro-batch, by the table above.
/// @param units  flat arrays, each cut for all ranks, in backward order: the head is the first.
/// @param dtype  of weights and gradients.
/// @param reshard  units that are kept for the backward pass are gathered once.
/// @param embeddings  tied: the last unit is the token table, which the head reads too. It is
/// gathered for both unless it is kept, and the head does not stay at the forward-backward boundary.
/// @throws ConfigError with the equation when how.node_size does not divide the ranks.
[[nodiscard]] StepVolume sent_in_micro_batch(
    std::span<const FlatLayout> units, DType dtype, const ZeroPlusPlus& how, const RankOfMany& rank,
    Reshard reshard = Reshard::kAfterForward,
    memory::Embeddings embeddings = memory::Embeddings::kUntied);

/// @brief What leaves a node per micro-batch, in units of M, the bytes of the model.
struct NodeVolume {
  double forward = 0;   ///< gathers of weights for the forward pass
  double backward = 0;  ///< gathers of weights for the backward pass
  double reduce = 0;    ///< reductions of gradients

  /// @brief All together.
  [[nodiscard]] double total() const { return forward + backward + reduce; }
  bool operator==(const NodeVolume&) const = default;
};

/// @brief The paper's table: many nodes, collectives that send no more between nodes than they must
/// (rings; qgZ in two steps), scales not counted.
///
/// |        | forward | backward | reduction | total  |
/// |--------|---------|----------|-----------|--------|
/// | ZeRO-3 | M       | M        | M         | 3 M    |
/// | ZeRO++ | 0.5 M   | 0        | 0.25 M    | 0.75 M |
///
/// @param how        without node_size, hpZ and qgZ have nodes nevertheless.
/// @param base_bits  of a number that is not quantised: 16 in the paper.
/// Source: Wang et al. 2023, "ZeRO++", arXiv 2306.10209, table 1.
[[nodiscard]] NodeVolume volume_between_nodes(const ZeroPlusPlus& how, int base_bits);

}  // namespace ultra::zero
