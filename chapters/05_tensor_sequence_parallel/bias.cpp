#include "chapters/05_tensor_sequence_parallel/row_parallel.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::tensor_parallel {
namespace {

/// [1, count] of ones: a matrix product with it repeats rows, or sums them.
Tensor ones(std::size_t count, const Tensor& like) {
  const Tensor row = Tensor::empty(like.device(), {1, count}, like.dtype());
  row.fill(1.0);
  return row;
}

}  // namespace

void add_bias(const Tensor& y, const Tensor& bias) {
  const Tensor rows = ops::as_matrix(y);
  ops::matmul_into(rows, ones(rows.size(0), y), ops::Transpose::kYes, bias.view({1, bias.numel()}),
                   ops::Transpose::kNo, ops::Write::kAccumulate);
}

void sum_rows_into(const Tensor& sum, const Tensor& d_y, ops::Write write) {
  const Tensor rows = ops::as_matrix(d_y);
  ops::matmul_into(sum.view({1, sum.numel()}), ones(rows.size(0), d_y), ops::Transpose::kNo, rows,
                   ops::Transpose::kNo, write);
}

}  // namespace ultra::tensor_parallel
