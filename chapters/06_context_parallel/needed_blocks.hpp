#pragma once
/// @file
/// Which blocks of queries and keys attention has to compute.
///
/// A block is a chunk of queries against a chunk of keys. The mask hides all of it (then it costs
/// nothing), a part of it (the diagonal: about half), or nothing.
///
/// Exercise 06.5 (`./workbook check 06.5`). Body: solutions/06_context_parallel/needed_blocks.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "chapters/06_context_parallel/context_layout.hpp"

namespace ultra::context_parallel {

/// @brief A chunk of queries that sees something of a chunk of keys.
struct AttentionBlock {
  std::size_t query_chunk = 0;  ///< index among the chunks of queries
  std::size_t key_chunk = 0;    ///< index among the chunks of keys
  bool is_masked = false;       ///< whether some real query does not see some key

  bool operator==(const AttentionBlock&) const = default;
};

/// @brief What a mask lets queries see in one sequence: keys at or before their own position, and not
/// before their document's beginning, nor before their window's.
struct SequenceMask {
  std::size_t seq_len = 0;  ///< real tokens; those behind are padding, which no block is needed for
  /// [at least seq_len] where the document of each token begins, never falling from a token to the next;
  /// empty: the sequence is one.
  std::span<const std::int32_t> document_begins = {};
  std::size_t window = 0;  ///< tokens that a query sees, its own the last; 0: all up to it

  /// @brief The real tokens of a chunk.
  [[nodiscard]] Range real(Range chunk) const {
    return {std::min(chunk.begin, seq_len), std::min(chunk.end, seq_len)};
  }
  /// @brief The first token that a token sees.
  [[nodiscard]] std::size_t begin_of(std::size_t token) const {
    const std::size_t in_window = window > 0 && token >= window ? token + 1 - window : 0;
    if (document_begins.empty()) return in_window;
    return std::max(in_window, static_cast<std::size_t>(document_begins[token]));
  }
};

/// @brief The blocks in which a real query sees a key, by query chunk, then by key chunk.
/// @param queries  chunks of queries.
/// @param keys     chunks of keys: those of queries, others, or some together.
[[nodiscard]] std::vector<AttentionBlock> needed_blocks(const TokenChunks& queries,
                                                        const TokenChunks& keys,
                                                        const SequenceMask& mask);

}  // namespace ultra::context_parallel
