#include "kernels/simt/emulator/async/tensor_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "kernels/simt/error.hpp"

namespace ultra::simt::emulator {
namespace {

[[noreturn]] void refuse(const std::string& found, const char* expected) {
  throw SimtError(Fault::kLaunch, fmt::format("a tensor map {}, expected {}", found, expected));
}

void check_extents(const TensorMap& map) {
  for (std::size_t dimension = 0; dimension < map.rank; ++dimension) {
    if (map.extents[dimension] == 0 || map.extents[dimension] > std::uint64_t{1} << 32) {
      refuse(fmt::format("has extent {} in dimension {}", map.extents[dimension], dimension),
             "1 to 2^32 elements");
    }
    if (map.box[dimension] == 0 || map.box[dimension] > 256) {
      refuse(
          fmt::format("has boxes of {} elements along dimension {}", map.box[dimension], dimension),
          "1 to 256. Hint: fetch a larger tile as several boxes");
    }
    if (dimension > 0 && (map.byte_strides[dimension] % 16 != 0 ||
                          map.byte_strides[dimension] >= std::uint64_t{1} << 40)) {
      refuse(fmt::format("has a stride of {} bytes in dimension {}", map.byte_strides[dimension],
                         dimension),
             "a multiple of 16 below 2^40. Hint: pad the rows");
    }
  }
}

}  // namespace

std::uint32_t TensorMap::box_rows() const {
  std::uint32_t rows = 1;
  for (std::size_t dimension = 1; dimension < rank; ++dimension) {
    rows *= box[dimension];
  }
  return rows;
}

void check_tensor_map(const TensorMap& map) {
  if (map.rank < 1 || map.rank > kMostDimensions) {
    refuse(fmt::format("has {} dimensions", map.rank), "1 to 5");
  }
  if (reinterpret_cast<std::uintptr_t>(map.address) % 16 != 0) {
    refuse("begins at no multiple of 16 bytes",
           "one. Hint: take the matrix from a Buffer, not from its middle");
  }
  check_extents(map);
  const std::uint32_t row = map.box_row_bytes();
  const std::uint32_t span = row_bytes_of(map.swizzle);
  if (row % 16 != 0) {
    refuse(fmt::format("has boxes with rows of {} bytes", row), "a multiple of 16");
  }
  if (span != 0 && row != span) {
    refuse(fmt::format("has boxes with rows of {} bytes and a swizzle of {}", row, span),
           "rows as long as the swizzle reaches: longer ones are refused by the driver, shorter "
           "ones are not modelled");
  }
}

BoxRow row_of_box(const TensorMap& map, const BoxPosition& position, std::uint32_t row) {
  BoxRow result{.box_offset = row * map.box_row_bytes()};
  std::ptrdiff_t offset = 0;
  for (std::size_t dimension = 1; dimension < map.rank; ++dimension) {
    const std::int64_t index =
        std::int64_t{position[dimension]} + static_cast<std::int64_t>(row % map.box[dimension]);
    row /= map.box[dimension];
    if (index < 0 || index >= static_cast<std::int64_t>(map.extents[dimension])) {
      return result;
    }
    offset += index * static_cast<std::int64_t>(map.byte_strides[dimension]);
  }
  const std::int64_t first = std::max<std::int64_t>(position[0], 0);
  const std::int64_t end = std::min<std::int64_t>(std::int64_t{position[0]} + map.box[0],
                                                  static_cast<std::int64_t>(map.extents[0]));
  if (first < end) {
    result.skipped_bytes = static_cast<std::uint32_t>(first - position[0]) * map.element_bytes;
    result.bytes = static_cast<std::uint32_t>(end - first) * map.element_bytes;
    result.global = map.address + offset + first * map.element_bytes;
  }
  return result;
}

}  // namespace ultra::simt::emulator
