#pragma once
/// @file
/// Tensor-core tiles of 16 x 16 x 16, on every executor: TileFragment, load_tile(), multiply_tiles(),
/// store_tile().

namespace ultra::simt {

/// @brief A tile's part in d = a b + c.
enum class TileUse {
  /// @brief a.
  kLeft,
  /// @brief b.
  kRight,
  /// @brief c and d.
  kSum,
};

/// @brief The order of a tile's elements in memory.
enum class TileLayout {
  /// @brief Rows are contiguous.
  kRowMajor,
  /// @brief Columns are contiguous.
  kColumnMajor,
};

}  // namespace ultra::simt

#if defined(__CUDACC__)

#include <mma.h>

#include <type_traits>

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

#else

#include <array>
#include <cstddef>

#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/emulator/language/access.hpp"

namespace ultra::simt {

/// @brief Elements of a 16 x 16 tile that one lane owns.
inline constexpr int kElementsPerLane = 8;

/// @brief One lane's part of a tile.
template <TileUse use, typename T, TileLayout layout = TileLayout::kRowMajor>
struct TileFragment {
  /// @brief How many elements this lane owns.
  static constexpr int num_elements = kElementsPerLane;
  /// @brief The elements, in an order that kernels may not rely on.
  std::array<T, kElementsPerLane> x;
};

}  // namespace ultra::simt

namespace ultra::simt::emulator {

/// @brief Where element `index` of a lane lies, with rows (or columns) of `stride` elements.
inline std::size_t tile_offset(int lane, int index, std::size_t stride) {
  const int position = lane * kElementsPerLane + index;
  return static_cast<std::size_t>(position / 16) * stride + static_cast<std::size_t>(position % 16);
}

/// @brief What a lane brings to a product of tiles: its parts of d = a b + c.
struct TileProduct {
  /// @brief Elements of a (16 x 16) as floats, row-major.
  std::array<float, kElementsPerLane> a;
  /// @brief Elements of b (16 x 16) as floats, row-major.
  std::array<float, kElementsPerLane> b;
  /// @brief Elements of c (16 x 16), row-major.
  std::array<float, kElementsPerLane> c;
  /// @brief Elements of d (16 x 16), row-major.
  std::array<float, kElementsPerLane> d;
  /// @brief Whether a is column-major.
  bool a_transposed;
  /// @brief Whether b is column-major.
  bool b_transposed;
};

/// @brief Multiplies the lanes' tiles.
void resolve_tile_product(std::span<void* const, 32> deposits, LaneMask mask);

/// @brief Checks and counts this lane's part of a tile as accesses of 16 bytes, the most that one
/// access can have.
template <typename T>
void observe_tile(Operation operation, const T* tile, std::size_t stride, const T* values,
                  SourceLine place) {
  constexpr std::size_t kBytes = sizeof(T) * kElementsPerLane;
  constexpr std::size_t kPiece = kBytes < 16 ? kBytes : 16;
  const auto* bytes =
      reinterpret_cast<const std::byte*>(tile + tile_offset(lane_index(), 0, stride));
  const auto* value_bytes = reinterpret_cast<const std::byte*>(values);
  for (std::size_t done = 0; done < kBytes; done += kPiece) {
    observe({.operation = operation,
             .space = MemorySpace::kAny,
             .address = bytes + done,
             .size = kPiece,
             .alignment = kPiece,
             .value = operation == Operation::kLoad ? nullptr : value_bytes + done,
             .place = place});
  }
}

}  // namespace ultra::simt::emulator

namespace ultra::simt {

/// @brief Sets every element of a tile.
template <TileUse use, typename T, TileLayout layout>
void fill_tile(TileFragment<use, T, layout>& fragment, const T& value) {
  fragment.x.fill(value);
}

/// @brief Loads a tile from global or shared memory; its rows (columns, if column-major) begin
/// `stride` elements apart. All lanes of the warp call it. The address and the stride must be multiples
/// of 16 bytes.
template <TileUse use, typename T, TileLayout layout, Executor executor = kExecutor>
void load_tile(TileFragment<use, T, layout>& fragment, const T* tile, unsigned stride,
               const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if constexpr (executor == Executor::kChecked) {
    emulator::observe_tile<T>(emulator::Operation::kLoad, tile, stride, nullptr,
                              {.file = file, .line = line});
  }
  const T* const first = tile + emulator::tile_offset(emulator::lane_index(), 0, stride);
  for (std::size_t index = 0; index < kElementsPerLane; ++index) {
    fragment.x[index] = first[index];
  }
}

/// @brief Stores a tile of sums, row-major, to global or shared memory. All lanes of the warp call it.
template <typename T, TileLayout layout, Executor executor = kExecutor>
void store_tile(T* tile, const TileFragment<TileUse::kSum, T, layout>& fragment, unsigned stride,
                const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if constexpr (executor == Executor::kChecked) {
    emulator::observe_tile<T>(emulator::Operation::kStore, tile, stride, fragment.x.data(),
                              {.file = file, .line = line});
  }
  T* const first = tile + emulator::tile_offset(emulator::lane_index(), 0, stride);
  for (std::size_t index = 0; index < kElementsPerLane; ++index) {
    first[index] = fragment.x[index];
  }
}

/// @brief d = a b + c on tiles, products and sums in float. All lanes of the warp call it.
template <typename T, TileLayout a_layout, TileLayout b_layout>
void multiply_tiles(TileFragment<TileUse::kSum, float>& d,
                    const TileFragment<TileUse::kLeft, T, a_layout>& a,
                    const TileFragment<TileUse::kRight, T, b_layout>& b,
                    const TileFragment<TileUse::kSum, float>& c,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::TileProduct product{.a = {},
                                .b = {},
                                .c = c.x,
                                .d = {},
                                .a_transposed = a_layout == TileLayout::kColumnMajor,
                                .b_transposed = b_layout == TileLayout::kColumnMajor};
  for (std::size_t index = 0; index < kElementsPerLane; ++index) {
    product.a[index] = static_cast<float>(a.x[index]);
    product.b[index] = static_cast<float>(b.x[index]);
  }
  emulator::meet({.mask = emulator::kWholeWarp,
                  .resolve = &emulator::resolve_tile_product,
                  .deposit = &product,
                  .name = "multiply_tiles",
                  .place = {.file = file, .line = line}});
  d.x = product.d;
}

}  // namespace ultra::simt

#endif
