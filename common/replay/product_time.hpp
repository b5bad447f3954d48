#pragma once
/// @file
/// What a matrix product takes on a GPU, by its shape.

#include "common/replay/cluster/cluster.hpp"

namespace ultra::replay {

/// @brief A product [m, k] x [k, n].
struct ProductShape {
  double m = 1;  ///< rows: tokens
  double k = 1;  ///< summed over
  double n = 1;  ///< columns

  /// @brief 2 m k n.
  [[nodiscard]] double flop() const { return 2 * m * k * n; }
};

/// @brief Seconds of a product.
///
/// The result is cut into tiles, which the multiprocessors take in waves: the last wave may be short
/// of tiles, and small tiles read more than they compute. Of a few sizes of tiles the best is taken.
/// A product is never faster than its three matrices pass through the memory. On a GPU with measured
/// products, their mean speed, weighted by how near they are, by the logarithms of the three sizes
/// (Shepard's inverse distances, to the power of 6): the measured one where the shape is measured.
/// @param element_bytes  of the matrices.
/// @param flops          peak FLOP per second in their format.
/// Source: NVIDIA, "Matrix Multiplication Background User's Guide", tile and wave quantization.
[[nodiscard]] double product_seconds(const GpuType& gpu, const ProductShape& shape,
                                     double element_bytes, double flops);

}  // namespace ultra::replay
