// The product of two tiles, whose elements the 32 lanes bring together.

#include "kernels/simt/tiles.cuh"

namespace ultra::simt::emulator {
namespace {

constexpr std::size_t kSide16 = 16;
using Tile = std::array<float, kSide16 * kSide16>;

Tile gather(std::span<void* const, 32> deposits,
            std::array<float, kElementsPerLane> TileProduct::*part) {
  Tile tile{};
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const auto& elements = static_cast<TileProduct*>(deposits[lane])->*part;
    for (std::size_t index = 0; index < kElementsPerLane; ++index) {
      tile[lane * kElementsPerLane + index] = elements[index];
    }
  }
  return tile;
}

float element(const Tile& tile, std::size_t row, std::size_t column, bool transposed) {
  return transposed ? tile[column * kSide16 + row] : tile[row * kSide16 + column];
}

}  // namespace

void resolve_tile_product(std::span<void* const, 32> deposits, LaneMask mask) {
  if (mask != kWholeWarp) {
    refuse_source(0, 31, mask);
  }
  const Tile a = gather(deposits, &TileProduct::a);
  const Tile b = gather(deposits, &TileProduct::b);
  const auto& first = *static_cast<TileProduct*>(deposits[0]);
  for (std::size_t position = 0; position < a.size(); ++position) {
    auto& own = *static_cast<TileProduct*>(deposits[position / kElementsPerLane]);
    const std::size_t row = position / kSide16;
    const std::size_t column = position % kSide16;
    float sum = own.c[position % kElementsPerLane];
    for (std::size_t k = 0; k < kSide16; ++k) {
      sum += element(a, row, k, first.a_transposed) * element(b, k, column, first.b_transposed);
    }
    own.d[position % kElementsPerLane] = sum;
  }
}

}  // namespace ultra::simt::emulator
