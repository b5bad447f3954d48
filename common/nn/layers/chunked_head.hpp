#pragma once
/// @file
/// The output projection and the loss in pieces of the tokens: the logits never exist whole.

#include <cstddef>

#include "common/nn/layer.hpp"

namespace ultra::nn {

/// @brief A head and its loss, a piece of the tokens after the other.
///
/// Forward, the logits of a piece become its loss and are forgotten; backward, they are computed again
/// and replaced by their gradient. So the head's forward product is made twice, and its weight's
/// gradient is a sum of as many terms as there are pieces. Saves "input", "targets" and "normalizer".
/// Memory: of logits and their gradient one piece, ceil(tokens / pieces) rows; where a schedule puts the
/// weights' gradients off, the gradients of all pieces wait for that.
/// Source: NeMo Automodel, ChunkedCrossEntropy; Hsu et al. 2024, "Liger Kernel", arXiv 2410.10989, section
/// 3.2. Deviation from the latter: it makes the gradients in the forward pass; here they are made
/// in the backward pass, as those of other layers are.
class ChunkedHead {
 public:
  /// @param pieces  at least 1; their lengths differ by a token at most.
  /// @param head    outlives this, as the loss does.
  ChunkedHead(std::size_t pieces, Projections& head, LossLayer& loss)
      : pieces_(pieces), head_(head), loss_(loss) {}

  /// @brief This rank's share of the mean loss.
  /// @param x        [batch, seq, hidden], or of sequence parallelism's ranks the part of each.
  /// @param targets  [batch, seq] of i32.
  /// @throws ConfigError when there are fewer tokens than pieces.
  [[nodiscard]] double forward(const Tensor& x, const Tensor& targets, double normalizer,
                               Saved& saved) const;
  /// @brief The gradient of x; consumes `saved`.
  [[nodiscard]] Tensor backward(Saved& saved) const;

 private:
  std::size_t pieces_;
  Projections& head_;
  LossLayer& loss_;
};

}  // namespace ultra::nn
