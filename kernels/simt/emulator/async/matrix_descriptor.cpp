#include "kernels/simt/emulator/async/matrix_descriptor.hpp"

namespace ultra::simt::emulator {
namespace {

constexpr std::uint32_t kUnit = 8;  // rows of a unit, and elements of 16 bytes
constexpr std::uint32_t kUnitBytes = 16;

Swizzle swizzle_of(std::uint64_t mode) {
  switch (mode) {
    case 1:
      return Swizzle::k128;
    case 2:
      return Swizzle::k64;
    case 3:
      return Swizzle::k32;
    default:
      return Swizzle::kNone;
  }
}

}  // namespace

MatrixDescriptor decode_descriptor(std::uint64_t bits) {
  const auto field = [bits](int first, std::uint64_t count) {
    return static_cast<std::uint32_t>(bits >> first & ((std::uint64_t{1} << count) - 1));
  };
  return {.start = field(0, 14) * kUnitBytes,
          .leading = field(16, 14) * kUnitBytes,
          .stride = field(32, 14) * kUnitBytes,
          .base_offset = field(49, 3),
          .swizzle = swizzle_of(field(62, 2))};
}

std::uint32_t MatrixDescriptor::address_of(Major major, std::uint32_t along,
                                           std::uint32_t depth) const {
  const bool by_rows = major == Major::kRows;
  // In units: `across` counts rows of 16 bytes or more, `on` goes on along such a row.
  const std::uint32_t across = by_rows ? along : depth;
  const std::uint32_t on = by_rows ? depth : along;
  if (swizzle == Swizzle::kNone) {
    const std::uint32_t next_rows = by_rows ? stride : leading;
    const std::uint32_t next_on = by_rows ? leading : stride;
    return start + across / kUnit * next_rows + across % kUnit * kUnitBytes + on / kUnit * next_on;
  }
  const std::uint32_t row = row_bytes_of(swizzle);
  const std::uint32_t byte = on * 2;
  const std::uint32_t linear =
      start + across / kUnit * stride + across % kUnit * row + byte / row * leading + byte % row;
  return swizzled(linear, swizzle);
}

}  // namespace ultra::simt::emulator
