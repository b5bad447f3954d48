#pragma once
/// @file
/// ContextLayout: which tokens of each sequence a rank has.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/tensor/shape.hpp"

/// @brief Chapter 06: every sequence in parts, on ranks that hold the same weights.
namespace ultra::context_parallel {

/// Tokens of a sequence, as ranges of positions: ascending, and no two with a token in common.
using TokenChunks = std::vector<Range>;

/// @brief How a sequence is dealt out.
enum class SequenceLayout : std::uint8_t {
  kContiguous,  ///< rank r of N has chunk r of N
  kZigzag,      ///< each rank has an early and a late chunk of 2 N, with as much work as any other
};

/// @brief How sequences are dealt out to cp ranks.
///
/// A sequence is cut into cp chunks (kContiguous) or 2 cp (kZigzag), all of the same length: what is
/// missing at its end is padding, which attends to nothing that counts and has no loss.
/// Source: Liu et al. 2023, "Ring Attention", arXiv 2310.01889, section 3 (contiguous); Llama 3, 2024, arXiv
/// 2407.21783, section 3.3.2 (2 cp chunks; zig-zag).
struct ContextLayout {
  int cp = 1;                                         ///< ranks that share each sequence
  SequenceLayout sequence = SequenceLayout::kZigzag;  ///< how it is dealt out
  std::size_t seq_len = 0;                            ///< tokens of a sequence, without padding
  std::size_t multiple_of = 1;  ///< the tokens of a rank are a multiple: of tp, where it cuts them

  /// @brief cp, as a size.
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(cp); }
  /// @brief Chunks that each rank has of a sequence: 1 or 2.
  [[nodiscard]] std::size_t chunks_per_rank() const {
    return sequence == SequenceLayout::kZigzag ? 2 : 1;
  }
  /// @brief Tokens of a chunk, padding included.
  [[nodiscard]] std::size_t chunk_len() const;
  /// @brief Tokens of a sequence that a rank has, padding included.
  [[nodiscard]] std::size_t local_seq_len() const { return chunks_per_rank() * chunk_len(); }
  /// @brief Tokens of a sequence with its padding: cp local_seq_len().
  [[nodiscard]] std::size_t padded_len() const { return ranks() * local_seq_len(); }

  /// @brief Checks that each chunk has a token, if it can.
  /// @throws ConfigError with the equation that does not hold, its values and the flag to change.
  void validate() const;

  bool operator==(const ContextLayout&) const = default;
};

/// @brief "contiguous" or "zigzag".
[[nodiscard]] const char* to_string(SequenceLayout layout);

/// @brief The tokens of several ranks together, in the order of their positions.
[[nodiscard]] TokenChunks joined_chunks(std::span<const TokenChunks> chunks);

/// @brief Number of tokens.
[[nodiscard]] std::size_t token_count(const TokenChunks& chunks);

}  // namespace ultra::context_parallel
