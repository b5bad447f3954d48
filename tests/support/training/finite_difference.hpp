#pragma once
/// @file
/// Gradients against central finite differences, in f64.

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/tensor/tensor.hpp"
#include "tests/support/random.hpp"

namespace ultra::test {

/// @brief A tensor that a scalar function depends on, and the function's gradient there.
struct Differentiated {
  std::string name;  ///< for the message
  Tensor x;          ///< contiguous f64; moved about, and restored, by the check
  Tensor gradient;   ///< contiguous f64 of the same shape: what is checked
};

/// Largest relative error of a gradient against finite differences.
inline constexpr double kGradientTolerance = 1e-6;

/// @brief Checks the gradients of `f`: single elements, and the slope along a random direction.
///
/// The slope is f's four-point central difference (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / (12 h) for
/// h = 2^-11. Its rounding error 1.5 eps |f| / h is near 1e-12 for functions of order one, and its
/// truncation error h^4 |f^(5)| / 30 stays below 2e-9 for fifth derivatives of up to 1e6, which
/// norms and softmax of norms reach. Errors are relative to the largest element of the tensor's
/// gradient (elements) or the gradient's Euclidean norm (direction); 8 eps |f| / h is allowed beside
/// it, for gradients that are exactly zero.
/// @param f          reads the current contents of the tensors.
/// @param elements   per tensor: all elements when it has no more, else that many drawn at random.
[[nodiscard]] ::testing::AssertionResult gradients_match(Random& random,
                                                         const std::function<double()>& f,
                                                         const std::vector<Differentiated>& at,
                                                         std::size_t elements = 24);

/// @brief sum_i a_i b_i in extended precision: turns a tensor into a scalar function's value.
[[nodiscard]] double inner_product(const Tensor& a, const Tensor& b);

}  // namespace ultra::test
