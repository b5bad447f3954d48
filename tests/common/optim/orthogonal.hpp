#pragma once
/// @file
/// Matrices of known singular values.

#include <cmath>
#include <cstddef>
#include <vector>

#include "common/tensor/tensor.hpp"
#include "tests/support/random.hpp"

namespace ultra::optim::test {

using namespace ultra::test;

/// Row-major.
using Matrix = std::vector<std::vector<double>>;

/// @brief a b.
inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.size(), std::vector<double>(b.front().size(), 0.0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < out[i].size(); ++j) out[i][j] += a[i][k] * b[k][j];
    }
  }
  return out;
}

/// @brief The transpose.
inline Matrix transposed(const Matrix& a) {
  Matrix out(a.front().size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < out.size(); ++j) out[j][i] = a[i][j];
  }
  return out;
}

/// @brief `count` orthonormal rows of `size` numbers: Gram-Schmidt, twice.
inline Matrix orthonormal(ultra::test::Random& random, std::size_t count, std::size_t size) {
  Matrix rows(count, std::vector<double>(size));
  for (std::size_t i = 0; i < count; ++i) {
    for (double& x : rows[i]) x = random.normal();
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < i; ++j) {
        double dot = 0;
        for (std::size_t k = 0; k < size; ++k) dot += rows[i][k] * rows[j][k];
        for (std::size_t k = 0; k < size; ++k) rows[i][k] -= dot * rows[j][k];
      }
      double squares = 0;
      for (const double x : rows[i]) squares += x * x;
      for (double& x : rows[i]) x /= std::sqrt(squares);
    }
  }
  return rows;
}

/// @brief The sum of s_k u_k v_k^T: a matrix with these singular values and vectors.
/// @param left   [count][rows], @param right  [count][columns].
inline Matrix with_singular_values(const std::vector<double>& values, const Matrix& left,
                                   const Matrix& right) {
  Matrix scaled = right;
  for (std::size_t k = 0; k < values.size(); ++k) {
    for (double& x : scaled[k]) x *= values[k];
  }
  return product(transposed(left), scaled);
}

/// @brief All elements, row-major.
inline std::vector<double> elements(const Matrix& matrix) {
  std::vector<double> all;
  for (const auto& row : matrix) all.insert(all.end(), row.begin(), row.end());
  return all;
}

/// @brief A tensor of them.
inline Tensor tensor_of(const Device& device, const Matrix& matrix, DType dtype) {
  return Tensor::from<double>(Device::cpu(), {matrix.size(), matrix.front().size()},
                              elements(matrix))
      .to(dtype)
      .to(device);
}

}  // namespace ultra::optim::test
