#pragma once
/// @file
/// Rings around matrix products: while a chunk travels, the product of the chunk before it is computed.
///
/// An all-gather before a product, and a reduce-scatter after one, make the rank wait. Cut into the
/// steps of a ring they need not: the product of a chunk that is here does not need the others.
/// "Asynchronous tensor parallelism".
///
/// Chunk c holds the tokens of rank c. In both rings a rank sends to Communicator::next_rank().
///
/// Exercise 05.6 (`./workbook check 05.6`).
/// Body: solutions/05_tensor_sequence_parallel/ring_matmul.cpp.
/// Source: Wang et al. 2023, "Overlap communication with dependent computation via decomposition in
/// large deep learning models", ASPLOS 2023, section 3.

#include <functional>

#include "common/comm/communicator.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::tensor_parallel {

/// @brief What is done with a rank's chunk when it is here; must not write to it.
using UseChunk = std::function<void(int chunk, const Tensor& values)>;

/// @brief All-gather in a ring: `use` is called for every rank's chunk, for its own first, then for
/// that of the rank before, and so on; while it works, the next chunk arrives.
/// @param own  this rank's chunk, of the same shape on all ranks.
/// Collective over tp.
/// Cost: tp - 1 chunks sent per rank, as by an all-gather.   Memory: two chunks, never all of them.
void gather_in_ring(const Tensor& own, const Communicator& tp, const UseChunk& use);

/// @brief Computes this rank's part of the sum for a rank's chunk; the caller may write to it.
using MakeChunk = std::function<Tensor(int chunk)>;

/// @brief Reduce-scatter in a ring: sums that are not complete travel, and every rank adds its part;
/// while it computes that, they arrive.
///
/// Calls `make` once for every chunk; for its own last.
/// @return the sum of all ranks' parts of this rank's chunk.
/// Collective over tp.
/// Cost: tp - 1 chunks sent per rank, as by a reduce-scatter.   Memory: three chunks.
[[nodiscard]] Tensor reduce_scatter_in_ring(const Communicator& tp, const MakeChunk& make);

}  // namespace ultra::tensor_parallel
