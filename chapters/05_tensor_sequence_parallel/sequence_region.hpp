#pragma once
/// @file
/// Sequence parallelism: outside the split matrices, each rank has its part of every sequence.
///
/// Norms and residual sums work on each token by itself, so tp ranks need not all do the same work on all
/// tokens: rank r takes part r of each sequence, and keeps activations of that part only. An all-reduce is
/// a reduce-scatter and an all-gather: sequence parallelism puts the norm between the two. The forward
/// pass sends the same bytes as before; the backward pass half as much again, because inputs that are kept
/// in parts are gathered once more.
///
/// Exercise 05.4 (`./workbook check 05.4`).
/// Body: solutions/05_tensor_sequence_parallel/sequence_region.cpp.
/// Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2.

#include <utility>

#include "chapters/05_tensor_sequence_parallel/region.hpp"

namespace ultra::tensor_parallel {

/// @brief What the ranks' parts of sequences are as whole sequences.
/// @param parts  [tp, batch, local_seq, hidden]: those of rank 0, then those of rank 1, ...
/// @return [batch, tp * local_seq, hidden]; without a copy when batch is 1.
[[nodiscard]] Tensor join_sequences(const Tensor& parts);

/// @brief The other way around.
/// @param x      [batch, seq, hidden].
/// @param ranks  tp; divides seq.
/// @return [tp, batch, seq / tp, hidden]; without a copy when batch is 1.
[[nodiscard]] Tensor cut_sequences(const Tensor& x, std::size_t ranks);

/// @brief Tensor and sequence parallelism: outside the region, rank r of tp has the tokens
/// [r seq / tp, (r + 1) seq / tp) of each sequence.
///
/// Cost: an all-gather or a reduce-scatter of batch * seq * hidden elements in each of the four.
class SequenceRegion : public Region {
 public:
  /// @param tp  the ranks that share each matrix, and each sequence.
  explicit SequenceRegion(Communicator tp) : tp_(std::move(tp)) {}

  Pending enter(const Tensor& x) override;
  Pending enter_backward(const Tensor& d_x) override;
  Pending leave(const Tensor& y) override;
  Pending leave_backward(const Tensor& d_y) override;

 private:
  Communicator tp_;
};

}  // namespace ultra::tensor_parallel
