#include "common/ops/matmul.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/ops/backend/backend.hpp"

namespace ultra::ops {
namespace {

bool is_matrix(const Tensor& t) {
  return t.defined() && t.shape().rank() == 2 && (t.size(1) <= 1 || t.strides()[1] == 1);
}

struct Extents {
  std::size_t rows;
  std::size_t columns;
};

Extents extents_of(const Tensor& t, Transpose transpose) {
  return transpose == Transpose::kNo ? Extents{t.size(0), t.size(1)}
                                     : Extents{t.size(1), t.size(0)};
}

void check_factors(const Tensor& a, const Tensor& b) {
  if (!is_matrix(a) || !is_matrix(b) || a.dtype() != b.dtype()) {
    throw ShapeError(
        fmt::format("matmul: expected two matrices of one dtype with contiguous rows, found {} of "
                    "{} and {} of {}",
                    a.shape().str(), to_string(a.dtype()), b.shape().str(), to_string(b.dtype())));
  }
}

/// A result of the factors' type, or of the type in which their products are summed.
bool holds_products(const Tensor& out, const Tensor& a) {
  return out.dtype() == a.dtype() || out.dtype() == accumulation_dtype(a.dtype());
}

/// [1, count] of ones: a product with it repeats rows, or sums them.
Tensor ones(std::size_t count, const Tensor& like) {
  const Tensor row = Tensor::empty(like.device(), {1, count}, like.dtype());
  row.fill(1.0);
  return row;
}

}  // namespace

void matmul_into(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
                 Transpose transpose_b, Write write) {
  throw_if_interrupted();  // products are where the time of a step goes
  check_factors(a, b);
  const auto [m, k] = extents_of(a, transpose_a);
  const auto [k_b, n] = extents_of(b, transpose_b);
  if (!is_matrix(out) || !holds_products(out, a) || k != k_b || out.size(0) != m ||
      out.size(1) != n) {
    throw ShapeError(
        fmt::format("matmul: [{}, {}] x [{}, {}] does not give {} of {}, from factors of {}", m, k,
                    k_b, n, out.shape().str(), to_string(out.dtype()), to_string(a.dtype())));
  }
  backend_of(out.device()).matmul(out, a, transpose_a, b, transpose_b, write);
}

Tensor matmul(const Tensor& a, Transpose transpose_a, const Tensor& b, Transpose transpose_b) {
  return matmul(a, transpose_a, b, transpose_b, a.dtype());
}

Tensor matmul(const Tensor& a, Transpose transpose_a, const Tensor& b, Transpose transpose_b,
              DType dtype) {
  check_factors(a, b);
  const Shape shape{extents_of(a, transpose_a).rows, extents_of(b, transpose_b).columns};
  const Tensor out = Tensor::empty(a.device(), shape, dtype);
  matmul_into(out, a, transpose_a, b, transpose_b);
  return out;
}

Tensor as_matrix(const Tensor& x) {
  const std::size_t columns = x.size(-1);
  // Not numel / columns: rows without columns are rows too.
  return x.view({x.shape().with(-1, 1).numel(), columns});
}

void add_bias(const Tensor& y, const Tensor& bias) {
  const Tensor rows = as_matrix(y);
  matmul_into(rows, ones(rows.size(0), y), Transpose::kYes, bias.view({1, bias.numel()}),
              Transpose::kNo, Write::kAccumulate);
}

void sum_rows_into(const Tensor& sum, const Tensor& d_y, Write write) {
  const Tensor rows = as_matrix(d_y);
  matmul_into(sum.view({1, sum.numel()}), ones(rows.size(0), d_y), Transpose::kNo, rows,
              Transpose::kNo, write);
}

}  // namespace ultra::ops
