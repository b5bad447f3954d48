#pragma once
/// @file
/// Packed documents: their lengths, where they begin, and each of them as a problem of attention of its
/// own, which is what the ladders over packs are judged by.

#include <cstdint>
#include <span>
#include <vector>

#include "chapters/09_kernels/attention/attention_reference.hpp"

namespace ultra::ladders {

/// @brief The lengths of the sequences of a problem, in their order in memory: the quantiles of an
/// exponential distribution, most of them short and few long, in a random order. Their sum does not
/// depend on the seed.
[[nodiscard]] std::vector<int> sequence_lengths(const Sizes& sizes, std::uint64_t seed);

/// @brief A pack of documents, and the random inputs of attention over it.
struct PackedDocuments {
  /// @brief [documents + 1]: where each begins; the last entry is the number of tokens.
  std::vector<int> begins;
  /// @brief The pack as one sequence, rounded to bf16: batch is 1.
  AttentionInputs pack;

  /// @brief Sizes are documents x their mean length x kv_heads x group x head_dim.
  PackedDocuments(const Sizes& sizes, std::uint64_t seed);

  /// @brief How many.
  [[nodiscard]] std::size_t documents() const { return begins.size() - 1; }
  /// @brief [tokens]: the document of each.
  [[nodiscard]] std::vector<int> document_of() const;
  /// @brief One document as a sequence of its own.
  [[nodiscard]] AttentionInputs document(std::size_t index) const;
  /// @brief One document's rows of an array [heads, tokens, columns], as [heads, length, columns].
  [[nodiscard]] std::vector<float> rows_of(std::size_t index, std::span<const float> values,
                                           std::size_t columns) const;
};

/// @brief The extents of problems over packs.
[[nodiscard]] std::vector<Dimension> pack_dimensions(const Sizes& emulated);

/// @brief Why rungs in bf16 refuse such a problem; empty when they do not.
[[nodiscard]] std::string refuse_pack_bf16(const Sizes& sizes);

/// @brief The least that such a problem costs: what its documents cost, each alone.
[[nodiscard]] Cost pack_cost(const Sizes& sizes, std::uint64_t seed, const AttentionWork& work);

}  // namespace ultra::ladders
