#pragma once
/// @file
/// TokenPlan: which tokens of each sequence pass on this rank, and which belong together.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/data/dataset.hpp"
#include "common/data/documents.hpp"
#include "common/nn/token_places.hpp"

namespace ultra::train {

/// @brief The tokens of this rank: those of whole sequences, one document each, unless a technique
/// says otherwise.
struct TokenPlan {
  /// [seq] positions in each sequence, ascending; from the sequence's length on they are padding.
  /// Empty: all tokens of the sequence.
  std::vector<std::int32_t> positions = {};
  std::size_t padded_len = 0;  ///< tokens of a sequence with its padding, where positions are given
  std::optional<data::Documents> documents = {};  ///< none: each sequence is one document

  /// @brief The places of the tokens of some sequences; null when nothing differs from the default.
  /// What pads a sequence is a document of its own.
  /// @param sampler  of this rank's share.
  /// @param step     0 for the first.
  [[nodiscard]] std::shared_ptr<const nn::TokenPlaces> places(const data::Sampler& sampler,
                                                              std::size_t step,
                                                              Range sequences) const;

  /// @brief What the token after next is predicted from, in whole sequences: as `tokens` the next token
  /// of each, as `targets` the one after that. Where a document or the sequence ends there is none:
  /// token 0, no target. The token after the sequence, which its last token predicts, still counts as
  /// the sequence's own, for its last token but one.
  /// @param places  of these sequences; null: each is one document.
  [[nodiscard]] static data::Batch next_of(const data::Batch& whole, const nn::TokenPlaces* places);

  /// @brief This rank's tokens and targets of whole sequences. Padding has token 0 and no target.
  [[nodiscard]] data::Batch part_of(const data::Batch& whole) const;
};

}  // namespace ultra::train
