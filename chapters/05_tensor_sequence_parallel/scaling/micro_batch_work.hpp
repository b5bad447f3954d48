#pragma once
/// @file
/// What one tensor-parallel rank computes, moves through its memory and exchanges for a
/// micro-batch's forward and backward pass.
///
/// Legend: p ranks, h hidden_size, f ffn_hidden_size, L num_layers, V vocab_size, s seq_len,
/// b sequences, e bytes per element, tokens = b s. All arrays that travel between ranks have b s h
/// elements, but for the loss's.
///
/// Products: 2 FLOP forward and 4 backward per token and weight of the rank's matrices: those of
/// the blocks and the head's. Attention has two products of S x S x h per block and sequence: 4 s^2
/// h FLOP forward, of which the causal mask leaves half, and twice as many backward; shared by p.
///
/// Elementwise work is what tensor parallelism does not split, but sequence parallelism does: the
/// two norms and two residual sums of a block, and the last norm. In arrays of tokens h elements
/// read or written: a norm 2 forward (input, output) and 3 backward (its gradient and input, and
/// what comes out), a sum 3 forward and 3 backward (where two gradients meet). Other elementwise
/// work (SwiGLU, softmax, rotary positions, the loss) is split either way and belongs to what the
/// products reach.
///
/// Source: Shoeybi et al. 2019, arXiv 1909.08053, section 3; Korthikanti et al. 2022, arXiv
/// 2205.05198, section 4.2.2.

#include <cstddef>
#include <string_view>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/05_tensor_sequence_parallel/scaling/exchange_cost.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"

namespace ultra::tensor_parallel {

/// @brief Exchanges of one kind.
struct RepeatedExchange {
  std::string_view what;  ///< "blocks forward: ...", for people
  Exchange exchange{};    ///< one of them
  std::size_t times = 0;  ///< how many there are

  /// FLOP of the weight-gradient product that needs nothing from one of these exchanges: it may run
  /// meanwhile. 0: there is none.
  double concurrent_flop = 0;

  bool operator==(const RepeatedExchange&) const = default;
};

/// @brief One rank's work for a micro-batch.
struct MicroBatchWork {
  double product_flop = 0;                  ///< of matrix products, forward and backward
  double elementwise_bytes = 0;             ///< read and written by what tp does not split
  std::vector<RepeatedExchange> exchanges;  ///< in the order in which each kind occurs first
};

/// @brief What each of the layout's ranks does; one rank exchanges nothing.
///
/// Exchanges of b s h elements, with L blocks:
/// - without sequence parallelism all-reduces: embedding 1; blocks 2 L forward and 2 L backward;
///   the head's input gradient 1;
/// - with it all-gathers and reduce-scatters: embedding one reduce-scatter, and one all-gather
///   backward; blocks forward 2 L each, backward 2 L each and 2 L more all-gathers, because a
///   column-parallel matrix's input is kept as a part and gathered again; the head an all-gather
///   forward, another backward, and a reduce-scatter;
/// - in both cases the loss: an all-reduce of b s maxima and one of 2 b s sums, in fp32.
/// Weight-gradient products that may run meanwhile: those of query, key and value, of the
/// feed-forward part's first matrices, and of the head, each beside its own input gradient.
/// @pre layout.validate() accepts the model.
[[nodiscard]] MicroBatchWork micro_batch_work(const memory::TransformerShape& model,
                                              const memory::BatchShape& batch,
                                              std::size_t element_bytes,
                                              const TensorParallelLayout& layout);

}  // namespace ultra::tensor_parallel
