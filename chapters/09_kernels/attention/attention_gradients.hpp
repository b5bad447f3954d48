#pragma once
/// @file
/// Attention's gradients in f64, row by row, with the error that rounding allows each element: what the
/// ladders of its backward pass are judged by.

#include <span>
#include <vector>

#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/report/verdict.hpp"

namespace ultra::ladders {

/// @brief What a backward pass got from the forward pass, and what it wrote; layouts as in
/// kernels::attention_backward::Problem.
struct AttentionGradients {
  /// @brief The forward pass's output.
  std::vector<float> o;
  /// @brief Its logarithms.
  std::vector<float> lse;
  /// @brief The gradient of q.
  std::vector<float> d_q;
  /// @brief The gradient of k.
  std::vector<float> d_k;
  /// @brief The gradient of v.
  std::vector<float> d_v;
};

/// @brief Judges gradients as functions of all that the rung was given, o and lse among it; a sample of
/// the rows where all would take too long.
/// @param d_o  the gradient of o, as o.
[[nodiscard]] Verdict judge_attention_gradients(const AttentionInputs& inputs,
                                                std::span<const float> d_o,
                                                const AttentionGradients& gradients,
                                                const AttentionRounding& rounding);

}  // namespace ultra::ladders
