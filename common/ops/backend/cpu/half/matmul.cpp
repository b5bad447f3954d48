#include <algorithm>

#include "common/ops/backend/cpu/gemm.hpp"
#include "common/ops/backend/cpu/half/half_ops.hpp"
#include "common/ops/backend/cpu/onednn/onednn_matmul.hpp"

namespace ultra::ops::cpu::half {
namespace {

/// Rows and columns of the result that are computed at once: their factors are converted blocks.
constexpr std::size_t kBlock = 512;

/// Rows `range` of op(x), as they stand: rows of x, or columns when it is transposed.
Tensor rows_of(const Tensor& x, Transpose transpose, Range range) {
  return x.slice(transpose == Transpose::kNo ? 0 : 1, range);
}

/// Columns `range` of op(x).
Tensor columns_of(const Tensor& x, Transpose transpose, Range range) {
  return x.slice(transpose == Transpose::kNo ? 1 : 0, range);
}

MatrixView<const float> factor(const Tensor& wide) {
  return {wide.data<float>(), std::max<std::size_t>(wide.size(1), 1)};
}

/// Where the sums of a block are made: in the result when it is f32, else beside it.
Tensor sums_of(const Tensor& out, Write write) {
  if (out.dtype() == DType::kF32) return out;
  if (write == Write::kAccumulate) return out.to(DType::kF32);
  return Tensor::empty(out.device(), out.shape(), DType::kF32);
}

/// One block of the result; its sums are rounded when all of K has been added.
void multiply_block(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& wide_b,
                    Transpose transpose_b, Write write, BlockProduct<float> product) {
  const Tensor wide_a = a.to(DType::kF32);
  const std::size_t k = transpose_a == Transpose::kNo ? a.size(1) : a.size(0);
  const Tensor sums = sums_of(out, write);
  const std::size_t stride = std::max({sums.strides()[0], sums.size(1), std::size_t{1}});
  product(transpose_a, transpose_b, out.size(0), out.size(1), k, 1.0F, factor(wide_a),
          factor(wide_b), write == Write::kOverwrite ? 0.0F : 1.0F,
          MatrixView<float>{sums.data<float>(), stride});
  if (!sums.shares_storage(out)) cast_into(out, sums);
}

}  // namespace

void matmul_by_blocks(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
                      Transpose transpose_b, Write write, BlockProduct<float> product) {
  for (std::size_t n = 0; n < out.size(1); n += kBlock) {
    const Range columns{n, std::min(n + kBlock, out.size(1))};
    const Tensor wide_b = columns_of(b, transpose_b, columns).to(DType::kF32);
    for (std::size_t m = 0; m < out.size(0); m += kBlock) {
      const Range rows{m, std::min(m + kBlock, out.size(0))};
      multiply_block(out.slice(0, rows).slice(1, columns), rows_of(a, transpose_a, rows),
                     transpose_a, wide_b, transpose_b, write, product);
    }
  }
}

void matmul_by_blocks(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
                      Transpose transpose_b, Write write) {
  matmul_by_blocks(out, a, transpose_a, b, transpose_b, write, gemm);
}

void matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, Write write) {
  if (onednn::multiplies(out, a, transpose_a)) {
    onednn::matmul(out, a, transpose_a, b, transpose_b, write);
  } else {
    matmul_by_blocks(out, a, transpose_a, b, transpose_b, write);
  }
}

}  // namespace ultra::ops::cpu::half
