#pragma once
/// @file
/// All-to-all: everybody has something different for everybody.
///
/// Chunk j of `sent`, in Buffer::kInput, becomes chunk (own position) of member j's `received`, in
/// Buffer::kData. In both algorithms a rank copies its own chunk by a step to itself.

#include <string>

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief Pairwise exchange: in round s each position sends to the one s further and receives from
/// the one s back. Counts may be uneven.
/// @pre sent.size() == received.size() == group.size().
/// Cost: P - 1 rounds; n - (own chunk) elements sent per rank, each once.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
[[nodiscard]] comm::Lane pairwise_all_to_all(const comm::Group& group, const comm::Chunks& sent,
                                             const comm::Chunks& received);

/// @brief Bruck's algorithm: chunks travel together, over distances 1, 2, 4, ..., in the rounds in
/// which the distance that they have to go has a bit.
///
/// What has to go i positions further is kept in slot i of scratch memory. A round packs the slots
/// with its bit into one message; the arriving ones take their place. At the end slot i holds what
/// came from i positions back.
/// @pre the counts of all members are equal, not only this one's: everybody takes the same way.
/// @throws ConfigError when this member's counts are not.
/// Cost: ceil(log2 P) rounds; each about n/2 elements: about (n/2) log2 P sent per rank.
/// Memory: (P + 2 ceil(P/2)) chunks of scratch.
/// Source: Bruck, Ho, Kipnis, Upfal, Weathersby 1997, "Efficient algorithms for all-to-all
/// communications in multiport message-passing systems".
[[nodiscard]] comm::Schedule bruck_all_to_all(const comm::Group& group, const comm::Chunks& sent,
                                              const comm::Chunks& received);

/// @brief Why Bruck's algorithm cannot exchange these chunks; empty when it can.
[[nodiscard]] std::string why_not_bruck(const comm::Chunks& sent, const comm::Chunks& received);

}  // namespace ultra::collectives
