#pragma once
/// @file
/// What the ladders adamw and adamw_bf16 take of a step of the optimizer, and how they are judged.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "chapters/09_kernels/report/verdict.hpp"
#include "common/ops/adamw.hpp"
#include "kernels/ladders/elements/adamw/adamw.hpp"

namespace ultra::ladders {

/// @brief The kernels' constants of a step.
[[nodiscard]] kernels::adamw::Constants kernel_constants(const ops::AdamWStep& step);

/// @brief Those of the step that the ladders time: the third one with the hyperparameters of a
/// language model, and a gradient that is clipped.
[[nodiscard]] kernels::adamw::Constants constants_of_step();

/// @brief Parameters and moments on the host.
struct AdamWParameters {
  /// @brief Parameters in fp32.
  std::vector<float> value;
  /// @brief Means of gradients.
  std::vector<float> first_moment;
  /// @brief Means of squared gradients.
  std::vector<float> second_moment;
};

/// @brief `n` random parameters with random moments.
[[nodiscard]] AdamWParameters random_parameters(std::size_t n, std::uint64_t seed);

/// @brief Compares parameter `i` after constants_of_step() with an f64 computation.
void compare_parameter(const AdamWParameters& before, double gradient, const AdamWParameters& after,
                       std::size_t i, Verdict& verdict);

}  // namespace ultra::ladders
