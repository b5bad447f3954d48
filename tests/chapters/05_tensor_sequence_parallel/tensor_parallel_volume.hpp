#pragma once
/// @file
/// What tensor and sequence parallelism send in a step, by closed form.
///
/// Legend: t ranks, L num_layers, h hidden_size, n = b s h elements of a micro-batch's activations.
/// An all-reduce of n elements makes t ranks send 2 (t - 1) n elements together, an all-gather or a
/// reduce-scatter half of that.

#include <cstddef>
#include <span>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/nn/model_config.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::tensor_parallel {

/// @brief How often arrays of n = b s h elements travel in one micro-batch.
///
/// | | all-reduce | all-gather | reduce-scatter |
/// |---|---|---|---|
/// | without sequence parallelism | 4 L + 2 | | |
/// | with it | | 6 L + 3 | 4 L + 2 |
///
/// The all-reduces: 2 forward and 2 backward per block; the embedding's output and the head's input
/// gradient. An all-reduce is one reduce-scatter and one all-gather; the other 2 L + 1 all-gathers
/// get the inputs of column-parallel matrices again, of which a rank keeps its tokens only.
/// Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2.
struct ActivationExchanges {
  std::size_t all_reduces = 0;      ///< of n elements
  std::size_t all_gathers = 0;      ///< likewise
  std::size_t reduce_scatters = 0;  ///< likewise

  bool operator==(const ActivationExchanges&) const = default;
};

/// @brief The table above.
/// @param block_forwards  forward passes of each block: 2 where blocks are computed again, else 1.
[[nodiscard]] ActivationExchanges activation_exchanges(std::size_t num_layers,
                                                       const TensorParallelLayout& layout,
                                                       std::size_t block_forwards = 1);

/// @brief A step of one replica, as far as its traffic goes.
struct TensorStep {
  nn::ModelConfig model;                            ///< whole
  TensorParallelLayout layout;                      ///< how it is split
  TensorOverlap overlap = TensorOverlap::kNone;     ///< kRing sends chunks one by one
  DType dtype = DType::kF32;                        ///< of activations and gradients
  std::span<const std::size_t> micro_batches = {};  ///< sequences of each
  std::size_t block_forwards = 1;                   ///< see activation_exchanges()
};

/// @brief Bytes that the ranks of a replica send together in a step, by the kind of operation.
struct TensorTraffic {
  std::size_t all_reduce = 0;      ///< activations; the loss; gradients of copies
  std::size_t all_gather = 0;      ///< activations
  std::size_t reduce_scatter = 0;  ///< activations
  std::size_t send = 0;            ///< chunks of activations on rings

  /// @brief All together.
  [[nodiscard]] std::size_t total() const {
    return all_reduce + all_gather + reduce_scatter + send;
  }
  bool operator==(const TensorTraffic&) const = default;
};

/// @brief What tensor parallelism sends in a step: exact, but for the sums of loss and gradient
/// norm (8 bytes for each weight tensor, and for the loss), which replicas share.
///
/// Beside the activations: 3 numbers per token for the loss; and once per step gradients of weights
/// of which several ranks hold copies: norms, with sequence parallelism, and key/value heads on
/// more than one rank.
[[nodiscard]] TensorTraffic tensor_traffic(const TensorStep& step);

}  // namespace ultra::tensor_parallel
