#pragma once
/// @file
/// QuantizedMatrix: fp8 codes, and a scale for each tile of them.
///
/// One scale for a whole tensor must reach as far as its largest number, and leaves the small ones
/// few bits or none. Scales of tiles confine an outlier to its tile: 1 x 128 for activations, whose
/// outliers are in few features and differ from token to token; 128 x 128 for weights.
///
/// Source: DeepSeek-AI 2024, "DeepSeek-V3 technical report", arXiv 2412.19437, sec. 3.3.2.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "chapters/10_mixed_precision/block_formats/scales.hpp"

namespace ultra::mixed_precision {

/// @brief Extents of the tiles that share a scale; 0 stands for all of a dimension.
struct TileShape {
  std::size_t rows = 0;     ///< 0: all
  std::size_t columns = 0;  ///< 0: all
  bool operator==(const TileShape&) const = default;
};

/// One scale for everything.
inline constexpr TileShape kPerTensor{0, 0};
/// DeepSeek-V3's tiles of activations: 128 features of a token.
inline constexpr TileShape kActivationTile{1, 128};
/// DeepSeek-V3's tiles of weights.
inline constexpr TileShape kWeightTile{128, 128};

/// @brief How the elements of a matrix fall into tiles; those at the end may be smaller.
struct TileGrid {
  std::size_t rows = 0;     ///< of the matrix
  std::size_t columns = 0;  ///< of the matrix
  TileShape tile;           ///< extents of a tile

  /// @brief Tiles along the rows.
  [[nodiscard]] std::size_t tile_rows() const;
  /// @brief Tiles along the columns.
  [[nodiscard]] std::size_t tile_columns() const;
  /// @brief All tiles.
  [[nodiscard]] std::size_t tiles() const { return tile_rows() * tile_columns(); }
  /// @brief Number of the tile, row-major, of an element.
  [[nodiscard]] std::size_t tile_of(std::size_t row, std::size_t column) const;
};

/// @brief A matrix in fp8. An element is its code's number times the factor of its tile.
struct QuantizedMatrix {
  TileGrid grid;                    ///< shape and tiles
  Fp8 format = Fp8::kE4m3;          ///< of the codes
  std::vector<std::uint8_t> codes;  ///< [rows * columns], row-major
  std::vector<float> factors;       ///< [tiles] what a code's number is multiplied by

  /// @brief Number of an element's code, without its factor.
  [[nodiscard]] float number(std::size_t row, std::size_t column) const {
    return f32_from_fp8(format, codes[row * grid.columns + column]);
  }
  /// @brief The factor of an element's tile.
  [[nodiscard]] float factor(std::size_t row, std::size_t column) const {
    return factors[grid.tile_of(row, column)];
  }
  /// @brief rows * columns + 4 tiles.
  [[nodiscard]] std::size_t bytes() const { return codes.size() + 4 * factors.size(); }
};

/// @brief The numbers of a quantised matrix, [rows * columns].
[[nodiscard]] std::vector<float> dequantized(const QuantizedMatrix& matrix);

/// @brief The largest magnitude of each tile, [tiles].
/// @param x  [rows * columns], row-major.
[[nodiscard]] std::vector<float> amax_of_tiles(std::span<const float> x, const TileGrid& grid);

}  // namespace ultra::mixed_precision
