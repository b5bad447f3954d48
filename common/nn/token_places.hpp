#pragma once
/// @file
/// TokenPlaces: where the tokens of a micro-batch stand in their sequences.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/tensor/shape.hpp"

namespace ultra::nn {

/// @brief Which tokens of each sequence pass, and which of them belong together.
struct TokenPlaces {
  /// [seq] of the tokens that pass, ascending, in every sequence of the micro-batch; empty: all.
  std::vector<std::int32_t> positions = {};
  /// Tokens of a whole sequence, with what pads it: positions are below this.
  std::size_t sequence_len = 0;
  /// [batch, sequence_len] where the document of each token begins, whether it passes here or not;
  /// empty: each sequence is one document.
  std::vector<std::int32_t> document_begins = {};

  /// @brief Where the documents of consecutive tokens of a sequence begin; empty if there are none.
  [[nodiscard]] std::span<const std::int32_t> begins(std::size_t sequence, Range tokens) const {
    if (document_begins.empty()) return {};
    return std::span(document_begins)
        .subspan(sequence * sequence_len + tokens.begin, tokens.size());
  }
};

}  // namespace ultra::nn
