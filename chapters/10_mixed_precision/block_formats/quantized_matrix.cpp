#include "chapters/10_mixed_precision/block_formats/quantized_matrix.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::mixed_precision {
namespace {

/// Tiles of `extent` along a dimension; one when the tile is all of it.
std::size_t tiles_along(std::size_t size, std::size_t extent) {
  return extent == 0 ? 1 : ceil_div(size, extent);
}

}  // namespace

std::size_t TileGrid::tile_rows() const { return tiles_along(rows, tile.rows); }

std::size_t TileGrid::tile_columns() const { return tiles_along(columns, tile.columns); }

std::size_t TileGrid::tile_of(std::size_t row, std::size_t column) const {
  const std::size_t tile_row = tile.rows == 0 ? 0 : row / tile.rows;
  const std::size_t tile_column = tile.columns == 0 ? 0 : column / tile.columns;
  return tile_row * tile_columns() + tile_column;
}

std::vector<float> dequantized(const QuantizedMatrix& matrix) {
  std::vector<float> numbers;
  numbers.reserve(matrix.codes.size());
  for (std::size_t row = 0; row < matrix.grid.rows; ++row) {
    for (std::size_t column = 0; column < matrix.grid.columns; ++column) {
      numbers.push_back(matrix.number(row, column) * matrix.factor(row, column));
    }
  }
  return numbers;
}

std::vector<float> amax_of_tiles(std::span<const float> x, const TileGrid& grid) {
  ensure(x.size() == grid.rows * grid.columns, "the elements of the matrix");
  std::vector<float> amax(grid.tiles(), 0.0F);
  for (std::size_t row = 0; row < grid.rows; ++row) {
    for (std::size_t column = 0; column < grid.columns; ++column) {
      float& largest = amax[grid.tile_of(row, column)];
      largest = std::max(largest, std::abs(x[row * grid.columns + column]));
    }
  }
  return amax;
}

}  // namespace ultra::mixed_precision
