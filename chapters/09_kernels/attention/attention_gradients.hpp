#pragma once
/// @file
/// Attention's gradients in f64, row by row, with the error that rounding allows each element: what
/// the ladders of its backward pass are judged by.

#include <span>
#include <vector>

#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/problem_buffers.hpp"
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

/// @brief The problem of a backward pass whose inputs are those of `forward`, in elements of T, and
/// its outputs.
template <typename Problem, typename T, typename Forward>
[[nodiscard]] Problem backward_problem(const Forward& forward, const AttentionInputs& inputs,
                                       const std::vector<T>& d_o, ProblemBuffers& buffers) {
  Problem problem{};
  problem.shape = inputs.shape;
  problem.q = forward.q;
  problem.k = forward.k;
  problem.v = forward.v;
  problem.o = forward.o;
  problem.lse = forward.lse;
  problem.d_o = buffers.input("d_o", d_o);
  problem.delta = buffers.output("delta", inputs.shape.rows());
  problem.d_q = buffers.output<T>("d_q", inputs.q.size());
  problem.d_k = buffers.output<T>("d_k", inputs.k.size());
  problem.d_v = buffers.output<T>("d_v", inputs.v.size());
  return problem;
}

/// @brief What is in the buffers of such a problem.
template <typename Problem>
[[nodiscard]] AttentionGradients download_gradients(const Problem& problem,
                                                    const ProblemBuffers& buffers) {
  return {.o = to_float(buffers.download(problem.o)),
          .lse = buffers.download(problem.lse),
          .d_q = to_float(buffers.download(problem.d_q)),
          .d_k = to_float(buffers.download(problem.d_k)),
          .d_v = to_float(buffers.download(problem.d_v))};
}

/// @brief Judges gradients as functions of all that the rung was given, o and lse included; a
/// sample of the rows where all would take too long.
/// @param d_o  the gradient of o, as o.
[[nodiscard]] Verdict judge_attention_gradients(const AttentionInputs& inputs,
                                                std::span<const float> d_o,
                                                const AttentionGradients& gradients,
                                                const AttentionRounding& rounding);

}  // namespace ultra::ladders
