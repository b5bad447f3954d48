// Matrix products.

#include <algorithm>
#include <cstdint>

#include "common/base/numeric.hpp"
#include "common/ops/backend/gpu/kernel_backend.hpp"
#include "common/ops/backend/gpu/kernel_choice.hpp"
#include "common/ops/backend/gpu/operands.hpp"
#include "common/tensor/backend/generic_operands.hpp"

namespace ultra::ops::gpu {
namespace {

/// A product that is asked for; see ops::matmul_into.
struct Product {
  const Tensor& out;      ///< the result
  const Tensor& a;        ///< left factor
  Transpose transpose_a;  ///< of the left factor
  const Tensor& b;        ///< right factor
  Transpose transpose_b;  ///< of the right factor
  Write write;            ///< whether the result is added to

  /// @brief Terms of each sum.
  [[nodiscard]] std::size_t depth() const {
    return transpose_a == Transpose::kNo ? a.size(1) : a.size(0);
  }
};

/// Elements between the starts of neighbouring rows; of one row any distance would do.
std::size_t row_stride(const Tensor& matrix) {
  return std::max({matrix.strides()[0], matrix.size(1), std::size_t{1}});
}

/// The generic kernel's product.
void multiply_plainly(const Product& of) {
  const auto steps = [](const Tensor& matrix, Transpose transpose) {
    const std::size_t stride = matrix.strides()[0];
    return transpose == Transpose::kNo ? generic::Steps{.row = stride, .column = 1}
                                       : generic::Steps{.row = 1, .column = stride};
  };
  const auto launched = launch("matmul", {of.a, of.b}, {of.out});
  launched.kernels().matmul({.rows = of.out.size(0),
                             .columns = of.out.size(1),
                             .depth = of.depth(),
                             .a = backend::source_of(of.a),
                             .a_steps = steps(of.a, of.transpose_a),
                             .b = backend::source_of(of.b),
                             .b_steps = steps(of.b, of.transpose_b),
                             .out = backend::target_of(of.out),
                             .out_stride = of.out.strides()[0],
                             .write = write_of(of.write)},
                            launched.queue());
}

/// The element type as the vendor's products name it.
kernels::VendorNumber vendor_number(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return kernels::VendorNumber::kF64;
    case DType::kBF16:
      return kernels::VendorNumber::kBf16;
    case DType::kF16:
      return kernels::VendorNumber::kF16;
    case DType::kF32:
    case DType::kI32:
      break;
  }
  return kernels::VendorNumber::kF32;
}

/// cuBLASLt's product.
void multiply_by_vendor(const Product& of) {
  const auto matrix = [](const Tensor& factor, Transpose transpose) {
    return kernels::VendorMatrix{.data = factor.address(),
                                 .stride = row_stride(factor),
                                 .is_transposed = transpose == Transpose::kYes};
  };
  const auto launched = launch("matmul", {of.a, of.b}, {of.out});
  launched.kernels().vendor({.rows = of.out.size(0),
                             .columns = of.out.size(1),
                             .depth = of.depth(),
                             .factors = vendor_number(of.a.dtype()),
                             .a = matrix(of.a, of.transpose_a),
                             .b = matrix(of.b, of.transpose_b),
                             .result = vendor_number(of.out.dtype()),
                             .out = of.out.address(),
                             .out_stride = row_stride(of.out),
                             .accumulates = of.write == Write::kAccumulate},
                            launched.queue());
}

/// Whether a matrix is as the ladders take it: contiguous, at a multiple of 16 bytes.
bool is_dense(const Tensor& matrix) {
  return matrix.is_contiguous() && reinterpret_cast<std::uintptr_t>(matrix.address()) % 16 == 0;
}

/// A factor as the ladders take it, copied where it is not so already.
Tensor dense(const Tensor& matrix, Transpose transpose) {
  const Tensor factor = transpose == Transpose::kNo ? matrix : matrix.transpose(0, 1);
  return is_dense(factor) ? factor : factor.clone();
}

/// Calls multiply(c, launched) to overwrite a dense c, and brings c to where it belongs.
template <class Fn>
void multiply_densely(const Product& of, const Tensor& a, const Tensor& b, const Fn& multiply) {
  const bool in_place = of.write == Write::kOverwrite && is_dense(of.out);
  const Tensor c =
      in_place ? of.out : Tensor::empty(of.out.device(), of.out.shape(), of.out.dtype());
  {
    const auto launched = launch("matmul", {a, b}, {c});
    multiply(c, launched);
  }
  if (in_place) return;
  if (of.write == Write::kOverwrite) return of.out.copy_from(c);
  const auto launched = launch("matmul_add", {c, of.out}, {of.out});
  launched.kernels().add(target(of.out), source(of.out), source(c), c.numel(), launched.queue());
}

/// The top rung of the f32 ladder.
void multiply_f32(const Product& of) {
  const Tensor a = dense(of.a, of.transpose_a);
  const Tensor b = dense(of.b, of.transpose_b);
  multiply_densely(of, a, b, [&](const Tensor& c, const KernelLaunch& launched) {
    launched.kernels().matmul_f32({.rows = checked_cast<int>(a.size(0)),
                                   .columns = checked_cast<int>(b.size(1)),
                                   .depth = checked_cast<int>(b.size(0)),
                                   .a = static_cast<const float*>(a.address()),
                                   .b = static_cast<const float*>(b.address()),
                                   .c = static_cast<float*>(c.address())},
                                  launched.queue());
  });
}

/// The top rung of the bf16 ladder, or of its part for Hopper. It takes the right factor
/// transposed.
void multiply_bf16(const Product& of, MatmulWay way) {
  const Tensor a = dense(of.a, of.transpose_a);
  const Tensor b = dense(of.b, of.transpose_b == Transpose::kNo ? Transpose::kYes : Transpose::kNo);
  multiply_densely(of, a, b, [&](const Tensor& c, const KernelLaunch& launched) {
    const kernels::matmul_bf16::Problem problem{.rows = checked_cast<int>(a.size(0)),
                                                .columns = checked_cast<int>(b.size(0)),
                                                .depth = checked_cast<int>(a.size(1)),
                                                .a = static_cast<const simt::bf16*>(a.address()),
                                                .b = static_cast<const simt::bf16*>(b.address()),
                                                .c = static_cast<simt::bf16*>(c.address())};
    const kernels::Table& kernels = launched.kernels();
    const auto multiply =
        way == MatmulWay::kHopperBf16 ? kernels.matmul_hopper : kernels.matmul_bf16;
    multiply(problem, launched.queue());
  });
}

}  // namespace

void KernelBackend::matmul(const Tensor& out, const Tensor& a, Transpose transpose_a,
                           const Tensor& b, Transpose transpose_b, Write write) const {
  if (out.numel() == 0) return;
  const Product of{out, a, transpose_a, b, transpose_b, write};
  const Hardware hardware = hardware_of(of.out.device());
  switch (const MatmulWay way = choose_matmul(hardware, of.out, of.a, of.depth(), of.write)) {
    case MatmulWay::kVendor:
      return multiply_by_vendor(of);
    case MatmulWay::kLadderF32:
      return multiply_f32(of);
    case MatmulWay::kLadderBf16:
    case MatmulWay::kHopperBf16:
      return multiply_bf16(of, way);
    case MatmulWay::kPlain:
      break;
  }
  multiply_plainly(of);
}

}  // namespace ultra::ops::gpu
