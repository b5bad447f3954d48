#pragma once
/// @file
/// Tensor-core tiles of 16 x 16 x 16 on a GPU: nvcuda::wmma under the names that
/// kernels/simt/emulator/tile_operations.hpp has.

#include <mma.h>

#include <type_traits>

#include "kernels/simt/tile_types.hpp"

namespace ultra::simt {

namespace gpu {

/// @brief wmma's layout of a tile that is multiplied.
template <TileLayout layout>
using WmmaLayout = std::conditional_t<layout == TileLayout::kRowMajor, nvcuda::wmma::row_major,
                                      nvcuda::wmma::col_major>;

/// @brief wmma's fragment of a tile.
template <TileUse use, typename T, TileLayout layout>
struct WmmaFragment {
  /// @brief A tile that is multiplied from the left.
  using Type = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, T, WmmaLayout<layout>>;
};

/// @brief wmma's fragment of a tile that is multiplied from the right.
template <typename T, TileLayout layout>
struct WmmaFragment<TileUse::kRight, T, layout> {
  /// @brief The fragment.
  using Type = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, T, WmmaLayout<layout>>;
};

/// @brief wmma's fragment of a tile of sums.
template <typename T, TileLayout layout>
struct WmmaFragment<TileUse::kSum, T, layout> {
  /// @brief The fragment.
  using Type = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, T>;
};

}  // namespace gpu

/// @brief One lane's part of a tile.
template <TileUse use, typename T, TileLayout layout = TileLayout::kRowMajor>
struct TileFragment : gpu::WmmaFragment<use, T, layout>::Type {};

/// @brief Sets every element of a tile.
template <TileUse use, typename T, TileLayout layout>
__device__ __forceinline__ void fill_tile(TileFragment<use, T, layout>& fragment, const T& value) {
  nvcuda::wmma::fill_fragment(fragment, value);
}

/// @brief Loads a tile from global or shared memory; its rows (columns, if column-major) begin
/// `stride` elements apart. All lanes of the warp call it. The address and the stride must be multiples
/// of 16 bytes.
template <TileUse use, typename T, TileLayout layout>
__device__ __forceinline__ void load_tile(TileFragment<use, T, layout>& fragment, const T* tile,
                                          unsigned stride) {
  if constexpr (use == TileUse::kSum) {
    nvcuda::wmma::load_matrix_sync(fragment, tile, stride, nvcuda::wmma::mem_row_major);
  } else {
    nvcuda::wmma::load_matrix_sync(fragment, tile, stride);
  }
}

/// @brief Stores a tile of sums, row-major, to global or shared memory. All lanes of the warp call it.
template <typename T, TileLayout layout>
__device__ __forceinline__ void store_tile(T* tile,
                                           const TileFragment<TileUse::kSum, T, layout>& fragment,
                                           unsigned stride) {
  nvcuda::wmma::store_matrix_sync(tile, fragment, stride, nvcuda::wmma::mem_row_major);
}

/// @brief d = a b + c on tiles, products and sums in float. All lanes of the warp call it.
template <typename T, TileLayout a_layout, TileLayout b_layout>
__device__ __forceinline__ void multiply_tiles(TileFragment<TileUse::kSum, float>& d,
                                               const TileFragment<TileUse::kLeft, T, a_layout>& a,
                                               const TileFragment<TileUse::kRight, T, b_layout>& b,
                                               const TileFragment<TileUse::kSum, float>& c) {
  nvcuda::wmma::mma_sync(d, a, b, c);
}

}  // namespace ultra::simt
