#pragma once
/// @file
/// The BLAS matrix product under one name for both scalar types.

#include <cblas.h>

#include <cstddef>

#include "common/base/numeric.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::ops::cpu {

/// @brief A row-major matrix inside a larger one.
template <class T>
struct MatrixView {
  T* data;             ///< first element
  std::size_t stride;  ///< elements between the starts of neighbouring rows
};

/// @brief c [m, n] = alpha op(a) [m, k] op(b) [k, n] + beta c, row-major.
inline void gemm(Transpose ta, Transpose tb, std::size_t m, std::size_t n, std::size_t k,
                 float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
                 MatrixView<float> c) {
  const auto op = [](Transpose t) { return t == Transpose::kNo ? CblasNoTrans : CblasTrans; };
  cblas_sgemm(CblasRowMajor, op(ta), op(tb), checked_cast<int>(m), checked_cast<int>(n),
              checked_cast<int>(k), alpha, a.data, checked_cast<int>(a.stride), b.data,
              checked_cast<int>(b.stride), beta, c.data, checked_cast<int>(c.stride));
}

/// @brief The same in f64.
inline void gemm(Transpose ta, Transpose tb, std::size_t m, std::size_t n, std::size_t k,
                 double alpha, MatrixView<const double> a, MatrixView<const double> b, double beta,
                 MatrixView<double> c) {
  const auto op = [](Transpose t) { return t == Transpose::kNo ? CblasNoTrans : CblasTrans; };
  cblas_dgemm(CblasRowMajor, op(ta), op(tb), checked_cast<int>(m), checked_cast<int>(n),
              checked_cast<int>(k), alpha, a.data, checked_cast<int>(a.stride), b.data,
              checked_cast<int>(b.stride), beta, c.data, checked_cast<int>(c.stride));
}

}  // namespace ultra::ops::cpu
