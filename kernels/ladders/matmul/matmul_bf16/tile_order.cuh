#pragma once
/// @file
/// The order in which blocks that stay compute the tiles of c.

#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

/// @brief A tile of c, counted in tiles.
struct TilePosition {
  /// @brief Its row of tiles.
  int row;
  /// @brief Its column of tiles.
  int column;
};

/// @brief Tile number `tile` of row_tiles x column_tiles. Bands of `band` rows of tiles are gone through
/// column by column: tiles that are computed at the same time then lie in a square, whose rows of a and
/// b are few enough for the second-level cache. The last band may be lower.
/// Source: Tillet, Kung & Cox 2019, "Triton", as its matrix product orders its programs.
__device__ __forceinline__ TilePosition tile_at(int tile, int row_tiles, int column_tiles,
                                                int band) {
  const int tiles_per_band = band * column_tiles;
  const int first_row = tile / tiles_per_band * band;
  const int height = row_tiles - first_row < band ? row_tiles - first_row : band;
  const int in_band = tile % tiles_per_band;
  return {.row = first_row + in_band % height, .column = in_band / height};
}

}  // namespace
}  // namespace ultra::kernels::matmul_bf16
