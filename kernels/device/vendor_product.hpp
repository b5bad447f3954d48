#pragma once
/// @file
/// The vendor's matrix products (cuBLASLt), without its headers. The library is opened when it is asked
/// for: nothing that links this needs it to start. vendor_product_stub.cpp serves builds without CUDA or
/// without cuBLAS's headers.

#include <cstddef>
#include <string>

#include "kernels/simt/config.hpp"

namespace ultra::kernels {

/// @brief Element types of the vendor's products. Sums are f64 of f64 factors, else f32: TF32 is never
/// taken.
enum class VendorNumber : unsigned char { kF32, kF64, kBf16, kF16 };

/// @brief A row-major matrix inside a larger one.
struct VendorMatrix {
  /// @brief The first element.
  const void* data;
  /// @brief Elements between the starts of neighbouring rows, at least a row's length.
  std::size_t stride;
  /// @brief Whether its transpose is the factor.
  bool is_transposed;
};

/// @brief out [rows, columns] = or += op(a) [rows, depth] op(b) [depth, columns]. No extent is 0.
struct VendorProduct {
  /// @brief Rows of the result.
  std::size_t rows;
  /// @brief Columns of the result.
  std::size_t columns;
  /// @brief Terms of each sum.
  std::size_t depth;
  /// @brief The type of both factors.
  VendorNumber factors;
  /// @brief The left factor.
  VendorMatrix a;
  /// @brief The right factor.
  VendorMatrix b;
  /// @brief The type of the result: the factors', or f32.
  VendorNumber result;
  /// @brief The result.
  void* out;
  /// @brief Elements between the starts of its rows.
  std::size_t out_stride;
  /// @brief Whether it is added to.
  bool accumulates;
};

/// @brief Why there is no cuBLASLt here, and what to do; empty when there is one.
[[nodiscard]] std::string why_no_vendor_product();

/// @brief Queues a product on the GPU that is current for the calling thread. The same operands give
/// the same bits. Memory: 32 MiB for each stream that ever had one.
/// @throws SimtError (Fault::kCuda) without cuBLASLt, or when it refuses the product.
void vendor_product(const VendorProduct& product, const simt::Queue& queue);

}  // namespace ultra::kernels
