#pragma once
/// @file
/// Tensors on the grid of an fp8 format: each number becomes one that fp8 has, times a scale's inverse.
///
/// The scales are powers of two, so what stands on the grid is exact in bf16, f32 and f64 alike; and the
/// product of two such tensors, summed in f32, is the fp8 product that a tensor core would make. So
/// any layer computes in fp8 whose tensors are put on the grid.
///
/// Cost: a pass over the tensor for its maxima, and one that reads and writes it; both vectorised.

#include <cstddef>

#include "chapters/10_mixed_precision/block_formats/quantized_matrix.hpp"
#include "common/tensor/shape.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::mixed_precision {

/// @brief A rank's part of a matrix that is split over ranks, and the tiles of the whole.
struct GridPart {
  Range rows;      ///< of the whole that are here
  Range columns;   ///< likewise
  TileGrid whole;  ///< shape and tiles of the whole matrix
  /// @brief Whether two parts of this size may have elements of one tile.
  [[nodiscard]] bool cuts_tiles() const;
};

/// @brief The largest magnitude in each tile of the whole, of the elements that are here.
/// @param x  the part: [..., columns] with as many rows, of f32, f64 or bf16, contiguous.
/// @return [tiles] of f32; 0 for a tile of which nothing is here.
/// @throws ShapeError for another dtype.
[[nodiscard]] Tensor amax_of(const Tensor& x, const GridPart& part);

/// @brief Largest magnitudes become scales, in place: power_of_two_scale().
void scales_from_amax(const Tensor& amax, Fp8 format, int margin);

/// @brief A new tensor with every number of x on the grid: nearest, ties to even, saturating.
/// @param scales  [tiles] of the whole, powers of two.
/// @return of x's shape and dtype.
[[nodiscard]] Tensor on_grid(const Tensor& x, const GridPart& part, const Tensor& scales,
                             Fp8 format);

/// @brief Codes in a number of i32.
inline constexpr std::size_t kCodesOfWord = 4;

/// @brief The codes of numbers that stand on the grid: four to a word.
/// @param x  as on_grid() returns it.
/// @return [..., ceil(columns / 4)] of i32.
/// Memory: one byte per number, rows filled up to words.
[[nodiscard]] Tensor pack_codes(const Tensor& x, const GridPart& part, const Tensor& scales,
                                Fp8 format);

/// @brief The numbers of codes, on the grid: what pack_codes() was given, bit for bit.
/// @param codes  [..., ceil(columns / 4)] of i32.
/// @return [..., columns] of `dtype`.
[[nodiscard]] Tensor unpack_codes(const Tensor& codes, const GridPart& part, const Tensor& scales,
                                  Fp8 format, DType dtype);

}  // namespace ultra::mixed_precision
