#pragma once
/// @file
/// Documents: several texts in one sequence, which attention keeps apart.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/philox.hpp"

namespace ultra::data {

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

}  // namespace ultra::data
