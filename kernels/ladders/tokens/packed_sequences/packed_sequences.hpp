#pragma once
/// @file
/// The ladder of packed sequences: the mean loss of each sequence of a packed batch, in which
/// sequences of different lengths lie one after the other without padding. Threads whose loops
/// differ in length diverge, too: a warp's loop runs until its last lane is done.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Means over sequences of different lengths.
namespace ultra::kernels::packed_sequences {

/// @brief means[s] = mean of losses[begins[s]] ... losses[begins[s + 1] - 1].
struct Problem {
  /// @brief How many sequences.
  int sequences;
  /// @brief [sequences + 1]: where each begins; the last entry is the number of tokens. No sequence
  /// is empty.
  const int* begins;
  /// @brief [sequences]: the sequences' numbers, the longest first.
  const int* by_length;
  /// @brief [tokens].
  const float* losses;
  /// @brief [sequences], written.
  float* means;
};

/// @brief Rung 1: a thread per sequence.
template <simt::Executor executor>
void thread_per_sequence(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: a thread per sequence, with sequences of equal lengths side by side.
template <simt::Executor executor>
void sorted_by_length(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: a warp per sequence.
template <simt::Executor executor>
void warp_per_sequence(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::packed_sequences
