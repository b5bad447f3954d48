#pragma once
/// @file
/// The ladder of small launches: a chain of matrix-vector products, as the decoding of one token is.
/// Each kernel needs all that the one before it has written, so they cannot become one; and each is
/// done in less time than its launch takes. The rungs run the same kernel, and differ in how it is
/// put on the queue.
///
/// Source: CUDA C++ Programming Guide, "CUDA Graphs" and "Programmatic Dependent Launch and
/// Synchronization".

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/recording.hpp"

/// @brief A chain of small kernels.
namespace ultra::kernels::small_launches {

/// @brief states[l] = weights[l] states[l - 1], and states[0] = weights[0] x.
struct Problem {
  /// @brief Products, one after the other.
  int layers;
  /// @brief Elements of a vector: a multiple of 4, at most kMostHidden.
  int hidden;
  /// @brief [layers, hidden, hidden].
  const float* weights;
  /// @brief [hidden].
  const float* x;
  /// @brief [layers, hidden], written.
  float* states;
  /// @brief What the rungs that record have recorded; the problem's owner keeps it.
  simt::Recording* recording;
};

/// @brief The longest vector: a lane holds 32 elements of a row of weights.
inline constexpr int kMostHidden = 1024;

/// @brief Rung 1: a launch for each product.
template <simt::Executor executor>
void separate(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: the launches are recorded once, and queued as one graph.
template <simt::Executor executor>
void recorded(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: each kernel begins while the one before it runs, and loads its weights meanwhile.
template <simt::Executor executor>
void programmatic(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: both.
template <simt::Executor executor>
void recorded_programmatic(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::small_launches
