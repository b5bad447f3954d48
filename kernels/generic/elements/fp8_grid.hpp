#pragma once
/// @file
/// Numbers on the grid of an fp8 format: largest magnitudes of tiles, scales that are powers of two,
/// rounding, and codes. Every result has the bits of the definition: nothing here is a sum.

#include <cstdint>

#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief A part of a matrix, and the tiles of the whole. Elements of f32, f64 or bf16.
struct TiledPart {
  /// @brief Rows of the part.
  std::size_t rows;
  /// @brief Columns of the part.
  std::size_t columns;
  /// @brief The part's first row in the whole.
  std::size_t first_row;
  /// @brief The part's first column in the whole.
  std::size_t first_column;
  /// @brief Rows of a tile, at least 1.
  std::size_t tile_rows;
  /// @brief Columns of a tile, at least 1.
  std::size_t tile_columns;
  /// @brief Tiles beside each other in the whole.
  std::size_t tiles_of_row;
  /// @brief Tiles of the whole.
  std::size_t tiles;
};

/// @brief An fp8 format.
struct Fp8Format {
  /// @brief Bits of the fraction.
  int fraction_bits;
  /// @brief Of the exponent.
  int bias;
  /// @brief The largest number.
  float largest;
};

/// @brief amax [tiles] of f32: the largest magnitude of each tile's elements that are in the part, NaN
/// passed over; 0 where there is none.
/// @param of_rows  [rows of the part, tiles_of_row] of f32: scratch.
template <simt::Executor executor>
void amax_of_tiles(const TiledPart& part, float* amax, const Source& x, float* of_rows,
                   const simt::Queue& queue);

/// @brief Replaces largest magnitudes by the largest powers of two that keep them within the format,
/// divided by 2^margin; 1 for 0, infinity and NaN.
template <simt::Executor executor>
void power_of_two_scales(float* amax, std::size_t count, const Fp8Format& format, int margin,
                         const simt::Queue& queue);

/// @brief A tensor's scale from the largest magnitudes of earlier steps.
/// @param scale    one number: the tensor's own largest magnitude, replaced by the scale.
/// @param history  [length] that of the step under way, then those of the steps before.
/// @param notes    whether its own largest magnitude counts for this step.
template <simt::Executor executor>
void scale_from_history(float* scale, float* history, std::size_t length, const Fp8Format& format,
                        int margin, bool notes, const simt::Queue& queue);

/// @brief out [rows, columns] = x rounded to the grid of its tile's scale, saturating; out may be x.
template <simt::Executor executor>
void round_to_grid(const TiledPart& part, const Target& out, const Source& x, const float* scales,
                   const Fp8Format& format, const simt::Queue& queue);

/// @brief codes [rows, words] of numbers that stand on the grid, four to a word, the first in the lowest
/// byte; zeros behind the last column.
template <simt::Executor executor>
void pack_fp8(const TiledPart& part, std::int32_t* codes, std::size_t words, const Source& x,
              const float* scales, const Fp8Format& format, const simt::Queue& queue);

/// @brief out [rows, columns] = the numbers of codes, over their tile's scale.
template <simt::Executor executor>
void unpack_fp8(const TiledPart& part, const Target& out, const std::int32_t* codes,
                std::size_t words, const float* scales, const Fp8Format& format,
                const simt::Queue& queue);

}  // namespace ultra::kernels::generic
