#pragma once
/// @file
/// SequenceGroup: ranks that have a sequence together, and which tokens each of them has.

#include <cstddef>
#include <vector>

#include "chapters/06_context_parallel/context_layout.hpp"
#include "common/comm/communicator.hpp"

namespace ultra::context_parallel {

/// @brief Ranks, each with its tokens of every sequence: as many each.
struct SequenceGroup {
  Communicator ranks;               ///< the group
  std::vector<TokenChunks> chunks;  ///< of each of its ranks

  /// @brief The tokens of this rank.
  [[nodiscard]] const TokenChunks& own() const {
    return chunks[static_cast<std::size_t>(ranks.rank())];
  }
  /// @brief The tokens of the group together, in the order of their positions.
  [[nodiscard]] TokenChunks all() const { return joined_chunks(chunks); }
};

}  // namespace ultra::context_parallel
