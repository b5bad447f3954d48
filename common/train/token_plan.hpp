#pragma once
/// @file
/// TokenPlan: which tokens of each sequence pass on this rank, and which belong together.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/data/dataset.hpp"
#include "common/nn/token_places.hpp"
#include "common/tensor/philox.hpp"

namespace ultra::train {

/// @brief Cuts sequences into documents of random lengths.
///
/// Each token but a sequence's first begins a document with probability 1 / mean_len, by the seed and
/// the token's number among all that a run draws: in every layout the same.
class Documents {
 public:
  /// @param mean_len  tokens of a document, on average; at least 1.
  Documents(std::uint64_t seed, std::size_t mean_len)
      : mean_len_(mean_len), stream_(seed, "documents") {}

  /// @brief Where the document of each token of a sequence begins.
  /// @param number  of the sequence among all that a run draws.
  /// @param begins  [seq_len] positions; written.
  void begins_into(std::size_t number, std::span<std::int32_t> begins) const;

 private:
  std::size_t mean_len_;
  PhiloxStream stream_;
};

/// @brief The tokens of this rank: those of whole sequences, one document each, unless a technique
/// says otherwise.
struct TokenPlan {
  /// [seq] positions in each sequence, ascending; from the sequence's length on they are padding.
  /// Empty: all tokens of the sequence.
  std::vector<std::int32_t> positions = {};
  std::size_t padded_len = 0;  ///< tokens of a sequence with its padding, where positions are given
  std::optional<Documents> documents = {};  ///< none: each sequence is one document

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
