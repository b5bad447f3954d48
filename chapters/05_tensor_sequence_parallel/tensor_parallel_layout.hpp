#pragma once
/// @file
/// TensorParallelLayout: how the matrices of a model, and the sequences between them, are split over
/// ranks.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/nn/model_config.hpp"
#include "common/tensor/shape.hpp"

/// @brief Chapter 05: every matrix in parts, on ranks that work on the same tokens.
namespace ultra::tensor_parallel {

/// @brief How tokens are laid out between the matrices: in norms, residual sums and what is kept there.
enum class SequenceParallel : std::uint8_t {
  kOff,  ///< every rank has all tokens
  kOn,   ///< rank r has part r of each sequence
};

/// @brief How a model is split over tp ranks.
///
/// Query heads, columns of the feed-forward part and rows of the vocabulary are dealt out in equal
/// parts. Key/value heads too, while there are enough; with more ranks than key/value heads, each head is
/// on tp / kv_heads neighbouring ranks. A vocabulary that does not divide is padded.
/// Source: Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3; Korthikanti et al. 2022,
/// arXiv 2205.05198, section 4.2.
struct TensorParallelLayout {
  int tp = 1;                                                   ///< ranks that share each matrix
  SequenceParallel sequence_parallel = SequenceParallel::kOff;  ///< what they do with the sequences

  /// @brief tp, as a size.
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(tp); }

  /// @brief Whether each rank has a part of each sequence only, between the matrices.
  [[nodiscard]] bool splits_sequences() const {
    return tp > 1 && sequence_parallel == SequenceParallel::kOn;
  }

  /// @brief Checks that the dimensions can be split.
  /// @throws ConfigError with the equation that does not hold, its values and the flag to change.
  void validate(const nn::ModelConfig& model) const;

  /// @brief Tokens of a sequence that a rank has between the matrices.
  [[nodiscard]] std::size_t local_seq_len(std::size_t seq_len) const {
    return splits_sequences() ? seq_len / ranks() : seq_len;
  }
  /// @brief Query heads per rank.
  [[nodiscard]] std::size_t local_heads(std::size_t num_heads) const { return num_heads / ranks(); }
  /// @brief Key/value heads per rank: at least one.
  [[nodiscard]] std::size_t local_kv_heads(std::size_t num_kv_heads) const {
    return num_kv_heads < ranks() ? 1 : num_kv_heads / ranks();
  }
  /// @brief Ranks that hold the same key/value heads: 1 while there are enough heads.
  [[nodiscard]] std::size_t kv_copies(std::size_t num_kv_heads) const {
    return num_kv_heads < ranks() ? ranks() / num_kv_heads : 1;
  }
  /// @brief The rows that a rank has of a matrix or a token table, without the padding: the last ranks
  /// may have fewer than the others, or none.
  [[nodiscard]] Range local_rows(std::size_t rows, int rank) const {
    const std::size_t part = (rows + ranks() - 1) / ranks();
    const std::size_t begin = std::min(static_cast<std::size_t>(rank) * part, rows);
    return {begin, std::min(begin + part, rows)};
  }
  /// @brief Rows of a token table per rank, with the padding: ceil(vocab_size / tp), what rank 0 has.
  [[nodiscard]] std::size_t local_vocab_size(std::size_t vocab_size) const {
    return local_rows(vocab_size, 0).size();
  }

  bool operator==(const TensorParallelLayout&) const = default;
};

}  // namespace ultra::tensor_parallel
