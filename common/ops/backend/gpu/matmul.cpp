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
                             .write = write_of(of.write),
                             .leaf = leaf_of(of.out.device(), of.depth())},
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
/// @param factors  what it reads.
template <class Fn>
void multiply_densely(const Product& of, std::initializer_list<Tensor> factors,
                      const Fn& multiply) {
  const bool in_place = of.write == Write::kOverwrite && is_dense(of.out);
  const Tensor c =
      in_place ? of.out : Tensor::empty(of.out.device(), of.out.shape(), of.out.dtype());
  {
    const auto launched = launch("matmul", factors, {c});
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
  multiply_densely(of, {a, b}, [&](const Tensor& c, const KernelLaunch& launched) {
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
void multiply_bf16(const Product& of, bool is_hopper) {
  const Tensor a = dense(of.a, of.transpose_a);
  const Tensor b = dense(of.b, of.b_along_depth() ? Transpose::kNo : Transpose::kYes);
  multiply_densely(of, {a, b}, [&](const Tensor& c, const KernelLaunch& launched) {
    const kernels::Table& kernels = launched.kernels();
    const auto multiply = is_hopper ? kernels.matmul_hopper : kernels.matmul_bf16;
    multiply({.rows = checked_cast<int>(c.size(0)),
              .columns = checked_cast<int>(c.size(1)),
              .depth = checked_cast<int>(of.depth()),
              .a = elements<const simt::bf16>(a),
              .b = elements<const simt::bf16>(b),
              .c = elements<simt::bf16>(c)},
             launched.queue());
  });
}

/// The same by a kernel that can add to f32: multiply(c, launched, adds).
/// @param factors  what it reads.
template <class Fn, class... Tensors>
void multiply_or_add(const Product& of, const Fn& multiply, const Tensors&... factors) {
  if (of.write == Write::kAccumulate && of.out.dtype() == DType::kF32 && is_dense(of.out)) {
    const auto launched = launch("matmul", {factors..., of.out}, {of.out});
    return multiply(of.out, launched, true);
  }
  multiply_densely(of, {factors...}, [&](const Tensor& c, const KernelLaunch& launched) {
    multiply(c, launched, false);
  });
}

/// The products of a backward pass, with the factors as they lie.
void multiply_turned(const Product& of, bool is_hopper) {
  using kernels::matmul_bf16::Lies;
  const Tensor a = dense(of.a, Transpose::kNo);
  const Tensor b = dense(of.b, Transpose::kNo);
  const auto multiply = [&](const Tensor& c, const KernelLaunch& launched, bool adds) {
    const bool is_float = c.dtype() == DType::kF32;
    const kernels::Table& kernels = launched.kernels();
    const auto kernel = is_hopper ? kernels.matmul_turned_hopper : kernels.matmul_turned;
    kernel({.rows = checked_cast<int>(c.size(0)),
            .columns = checked_cast<int>(c.size(1)),
            .depth = checked_cast<int>(of.depth()),
            .a = elements<const simt::bf16>(a),
            .a_lies = of.a_along_depth() ? Lies::kAlongDepth : Lies::kAlongRows,
            .b = elements<const simt::bf16>(b),
            .b_lies = of.b_along_depth() ? Lies::kAlongDepth : Lies::kAlongRows,
            .c = is_float ? nullptr : elements<simt::bf16>(c),
            .sums = is_float ? elements<float>(c) : nullptr,
            .adds = adds},
           launched.queue());
  };
  multiply_or_add(of, multiply, a, b);
}

static_assert(kFp8Tile == std::size_t{generic::kFp8Group} &&
              kFp8Tile == std::size_t{kernels::matmul_fp8::kGroup});

/// A factor as the ladder of fp8 takes it.
struct Fp8Codes {
  Tensor codes;   // [rows, words] of four codes each
  Tensor scales;  // [rows or squares' rows, groups]
};

/// @param is_turned  whether the matrix lies as [depth, rows].
/// @param left       the format of a left factor, each of whose rows has scales of its own.
Fp8Codes packed_factor(const Tensor& matrix, bool is_turned, std::optional<Fp8Left> left) {
  const Tensor x = dense(matrix, Transpose::kNo);
  const std::size_t rows = x.size(is_turned ? 1 : 0);
  const std::size_t depth = x.size(is_turned ? 0 : 1);
  const std::size_t groups = ceil_div(depth, kFp8Tile);
  const std::size_t words = groups * kFp8Tile / sizeof(std::int32_t);
  const std::size_t scales = left ? rows : ceil_div(rows, kFp8Tile);
  const Fp8Codes packed{.codes = Tensor::empty(x.device(), {rows, words}, DType::kI32),
                        .scales = Tensor::empty(x.device(), {scales, groups}, DType::kF32)};
  const auto launched = launch("fp8_factor", {x}, {packed.codes, packed.scales});
  launched.kernels().pack_factor({.rows = rows,
                                  .depth = depth,
                                  .x = elements<const simt::bf16>(x),
                                  .is_turned = is_turned,
                                  .is_left = left.has_value(),
                                  .is_e5m2 = left == Fp8Left::kE5m2},
                                 packed.codes.address(), elements<float>(packed.scales),
                                 launched.queue());
  return packed;
}

/// Hopper's rung of the fp8 ladder, behind kernels that find the factors' codes.
void multiply_fp8(const Product& of) {
  const Fp8Codes a = packed_factor(of.a, !of.a_along_depth(), of.fp8->left);
  const Fp8Codes b = packed_factor(of.b, !of.b_along_depth(), std::nullopt);
  const auto multiply = [&](const Tensor& c, const KernelLaunch& launched, bool adds) {
    const bool is_float = c.dtype() == DType::kF32;
    const kernels::Table& kernels = launched.kernels();
    const auto kernel = of.fp8->left == Fp8Left::kE5m2 ? kernels.matmul_fp8_of_gradients_hopper
                                                       : kernels.matmul_fp8_hopper;
    kernel({.rows = checked_cast<int>(c.size(0)),
            .columns = checked_cast<int>(c.size(1)),
            .depth = checked_cast<int>(a.scales.size(1) * kFp8Tile),
            .a = elements<const simt::fp8_e4m3>(a.codes),
            .a_scales = elements<const float>(a.scales),
            .b = elements<const simt::fp8_e4m3>(b.codes),
            .b_scales = elements<const float>(b.scales),
            .c = is_float ? nullptr : elements<simt::bf16>(c),
            .sums = is_float ? elements<float>(c) : nullptr,
            .adds = adds},
           launched.queue());
  };
  multiply_or_add(of, multiply, a.codes, a.scales, b.codes, b.scales);
}

}  // namespace

void KernelBackend::matmul(const Tensor& out, const Tensor& a, Transpose transpose_a,
                           const Tensor& b, Transpose transpose_b, Write write) const {
  if (out.numel() == 0) return;
  const Product of{out, a, transpose_a, b, transpose_b, write, Fp8Products::with(b)};
  const Hardware hardware = hardware_of(of.out.device());
  switch (choose_matmul(hardware, of)) {
    case MatmulWay::kVendor:
      return multiply_by_vendor(of);
    case MatmulWay::kLadderF32:
      return multiply_f32(of);
    case MatmulWay::kLadderBf16:
      return multiply_bf16(of, has_hopper_kernel(hardware, of));
    case MatmulWay::kTurnedBf16:
      return multiply_turned(of, has_hopper_kernel(hardware, of));
    case MatmulWay::kHopperFp8:
      return multiply_fp8(of);
    case MatmulWay::kPlain:
      break;
  }
  multiply_plainly(of);
}

}  // namespace ultra::ops::gpu
