#pragma once
// A tile in shared memory in each layout that wgmma knows, and what its descriptor is.

#include <cstdint>

#include "kernels/simt/emulator/async/matrix_descriptor.hpp"

namespace ultra::simt::test {

using emulator::Major;
using emulator::MatrixDescriptor;
using emulator::Swizzle;

// A whole tile in shared memory, element by element, as it is put there: every element in its own
// place, and the descriptor of it, or of a part that begins further on, leads there.
struct Tile {
  Swizzle swizzle;
  Major major;
  std::uint32_t along;  // rows
  std::uint32_t depth;

  // The place of an element in units of 8 rows, from the figures of the PTX ISA: units of `width`
  // bytes times 8, those along a row of the tile one behind the other, then the next 8 rows.
  [[nodiscard]] std::uint32_t place_of(std::uint32_t row, std::uint32_t k) const {
    const std::uint32_t width = swizzle == Swizzle::kNone ? 16 : row_bytes_of(swizzle);
    const std::uint32_t across = major == Major::kRows ? row : k;
    const std::uint32_t byte = 2 * (major == Major::kRows ? k : row);
    const std::uint32_t unit = unit_bytes() * (across / 8 * units_per_row() + byte / width);
    const std::uint32_t in_row = byte % width;
    // Which line of 128 bytes of the unit: the rows that share it are swizzled alike.
    const std::uint32_t line = across % 8 * width / 128;
    const std::uint32_t chunk = in_row / 16 ^ (width == 16 ? 0 : line % (width / 16));
    return unit + across % 8 * width + chunk * 16 + in_row % 16;
  }
  [[nodiscard]] std::uint32_t unit_bytes() const {
    return 8 * (swizzle == Swizzle::kNone ? 16 : row_bytes_of(swizzle));
  }
  [[nodiscard]] std::uint32_t units_per_row() const {
    const std::uint32_t bytes = 2 * (major == Major::kRows ? depth : along);
    return bytes / (unit_bytes() / 8);
  }
  [[nodiscard]] MatrixDescriptor describe(std::uint32_t start) const {
    const std::uint32_t next_rows = unit_bytes() * units_per_row();
    const bool turns = swizzle == Swizzle::kNone && major == Major::kDepth;
    return {.start = start,
            .leading = turns ? next_rows : unit_bytes(),
            .stride = turns ? unit_bytes() : next_rows,
            .base_offset = 0,
            .swizzle = swizzle};
  }
};

// The 64 bits of a descriptor.
inline std::uint64_t encode(const MatrixDescriptor& descriptor) {
  std::uint64_t mode = 0;
  switch (descriptor.swizzle) {
    case Swizzle::k128:
      mode = 1;
      break;
    case Swizzle::k64:
      mode = 2;
      break;
    case Swizzle::k32:
      mode = 3;
      break;
    case Swizzle::kNone:
      break;
  }
  return std::uint64_t{descriptor.start / 16} | std::uint64_t{descriptor.leading / 16} << 16 |
         std::uint64_t{descriptor.stride / 16} << 32 | std::uint64_t{descriptor.base_offset} << 49 |
         mode << 62;
}

}  // namespace ultra::simt::test
