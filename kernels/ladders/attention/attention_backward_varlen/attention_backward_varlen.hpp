#pragma once
/// @file
/// Attention's backward pass over packed documents: attention_backward_bf16 within each document of
/// a pack, as attention_varlen has it forward.

#include "kernels/ladders/attention/attention_backward_bf16/attention_backward_bf16.hpp"
#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Attention's backward pass over packed documents, in bf16 on tensor cores.
namespace ultra::kernels::attention_backward_varlen {

/// @brief The gradients of o = softmax(scale q k^T) v within each document.
struct Problem {
  /// @brief The pack as one sequence: batch is 1, seq_len the number of all tokens.
  attention_backward_bf16::Problem pack;
  /// @brief Documents of the pack.
  int documents;
  /// @brief [documents + 1]: where each begins; the last entry is the number of tokens.
  const int* begins;
};

/// @brief Rung 1: tiles of keys and of queries begin where documents do.
template <simt::Executor executor>
void tiles_of_documents(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::attention_backward_varlen
