#pragma once
/// @file
/// The block-wise product: fp8 factors with scales of tiles, and sums that are promoted to f32.
///
/// A factor's scale is constant along 128 elements of the inner dimension, so a sum over those 128
/// needs no scale: it runs in the tensor core's own accumulator, of few bits. Then it is promoted: it
/// is multiplied with what the two tiles were scaled by, and added to a sum in f32. So the accumulator's
/// loss stays that of 128 products, however long the inner dimension is.
///
/// Exercise 10.5 (`./workbook check 10.5`).
/// Body: solutions/10_mixed_precision/blockwise_product.cpp.
/// Source: DeepSeek-V3, arXiv 2412.19437, sec. 3.3.2 and figure 7; DeepGEMM.

#include <cstddef>
#include <span>

#include "chapters/10_mixed_precision/block_formats/quantized_matrix.hpp"
#include "chapters/10_mixed_precision/fp8/accumulator.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::mixed_precision {

/// Products after which a sum is promoted to f32.
inline constexpr std::size_t kPromotionInterval = 128;

/// @brief Writes a matrix in fp8: the largest magnitude of each tile becomes the largest number of
/// the format. A tile of zeros has the factor 1.
/// @param x     [rows * columns], row-major, finite.
/// @param grid  its shape and tiles.
[[nodiscard]] QuantizedMatrix quantize_tiles(std::span<const float> x, const TileGrid& grid,
                                             Fp8 format);

/// @brief The product A B^T, promoted every kPromotionInterval elements of the inner dimension.
/// @param a            [M, K]; tiles of one row or all, and of 128 columns, or a divisor or a
///                     multiple thereof that makes the factor constant in each interval.
/// @param b            [N, K], likewise; tiles of any rows.
/// @param accumulator  of the sums between promotions.
/// @return [M, N] of f32, on the CPU.
[[nodiscard]] Tensor blockwise_product(const QuantizedMatrix& a, const QuantizedMatrix& b,
                                       Accumulator accumulator);

}  // namespace ultra::mixed_precision
