#pragma once
/// @file
/// A vocabulary in parts, the logits as a whole, and sums over them in extended precision.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "common/tensor/tensor.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/split_case.hpp"

namespace ultra::tensor_parallel::test {

using Real = long double;

/// @brief A vocabulary in parts.
struct VocabularyCase {
  int ranks = 1;
  DType dtype = DType::kF32;
  std::size_t vocab = 1;
  std::size_t more_padding = 0;  ///< columns of each rank beyond ceil(vocab / ranks)
  std::size_t batch = 1;
  std::size_t seq = 1;
  double normalizer = 1;
  double padding = 0;  ///< what stands behind each rank's vocabulary

  [[nodiscard]] std::size_t tokens() const { return batch * seq; }
  [[nodiscard]] std::size_t part() const { return (vocab + as_size(ranks) - 1) / as_size(ranks); }
  [[nodiscard]] std::size_t columns() const { return part() + more_padding; }
  [[nodiscard]] Range vocabulary_of(int rank) const {
    return {std::min(as_size(rank) * part(), vocab), std::min((as_size(rank) + 1) * part(), vocab)};
  }
  [[nodiscard]] std::string str() const {
    return fmt::format(
        "{}, vocabulary of {} in parts of {}, {} columns of each rank, {} sequences of {} tokens, "
        "normalizer {}",
        to_string(dtype), vocab, part(), columns(), batch, seq, normalizer);
  }
};

/// @brief The whole logits.
struct WholeLogits {
  Tensor logits;   ///< [batch, seq, vocab]
  Tensor targets;  ///< [batch, seq]

  /// A rank's columns, with the padding behind them.
  [[nodiscard]] Tensor part_of(const VocabularyCase& c, int rank, const Device& device) const {
    const Range own = c.vocabulary_of(rank);
    const Tensor part = Tensor::empty(device, {c.batch, c.seq, c.columns()}, c.dtype);
    part.fill(c.padding);
    part.slice(-1, {0, own.size()}).copy_from(logits.slice(-1, own));
    return part;
  }
};

/// @brief One token's logits in extended precision.
struct Token {
  std::vector<Real> logits;
  std::size_t target;

  [[nodiscard]] Real highest(Range range) const {
    Real result = -std::numeric_limits<Real>::infinity();
    for (std::size_t i = range.begin; i < range.end; ++i) result = std::max(result, logits[i]);
    return result;
  }
  [[nodiscard]] Real sum(Range range, Real subtracted) const {
    Real result = 0;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      result += std::exp(logits[i] - subtracted);
    }
    return result;
  }
};

}  // namespace ultra::tensor_parallel::test
