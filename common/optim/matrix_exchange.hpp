#pragma once
/// @file
/// MatrixExchange: makes matrices whole for a while, of which ranks have pieces.

#include <functional>
#include <span>

#include "common/tensor/tensor.hpp"

namespace ultra::optim {

/// @brief Brings the pieces of matrices together where each matrix is transformed, and the results back.
/// Body: chapters/04_zero/whole_matrices/whole_matrices.cpp.
class MatrixExchange {
 public:
  MatrixExchange() = default;
  MatrixExchange(const MatrixExchange&) = delete;
  MatrixExchange& operator=(const MatrixExchange&) = delete;
  virtual ~MatrixExchange() = default;

  /// @brief Transforms each matrix once, on one rank, and writes this rank's parts to `pieces`.
  /// Collective.
  /// @param pieces     [elements] by number of the updates; undefined where a weight is not a matrix.
  /// @param transform  changes a whole matrix in place.
  virtual void transform(std::span<const Tensor> pieces,
                         const std::function<void(const Tensor& matrix)>& transform) = 0;
};

}  // namespace ultra::optim
