#pragma once
/// @file
/// The 64 bits that tell wgmma where a matrix of 16-bit elements lies in shared memory.
///
/// The matrix has `along` rows or columns (of the factor's own side) and 16 elements of the depth. It is
/// made of units of 8 times 16 bytes, or with a swizzle of rows of 32, 64 or 128 bytes:
///
///     by rows (K-major)       a row of the unit is one row, and runs along the depth; 8 rows
///                             follow each other; the stride offset leads to the next 8 rows; without
///                             a swizzle the leading offset leads to the next 8 elements of the depth
///     by depth (MN-major)     a row of the unit is one element of the depth, and runs along the
///                             matrix's rows; with a swizzle, the stride offset leads to the next 8
///                             elements of the depth, the leading offset to the next row of the unit's
///                             length; without, it is the other way round
///
/// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Strides" and "Matrix
/// Descriptor Format".

#include <cstdint>

#include "kernels/simt/emulator/async/swizzle.hpp"

namespace ultra::simt::emulator {

/// @brief Along which side a matrix's elements follow each other.
enum class Major : std::uint8_t {
  /// @brief Along the depth ("K-major").
  kRows,
  /// @brief Along the rows of a or the columns of b ("MN-major").
  kDepth,
};

/// @brief A descriptor, taken apart. Addresses and offsets are in bytes.
struct MatrixDescriptor {
  /// @brief The matrix's first byte in the block's shared memory.
  std::uint32_t start;
  /// @brief The leading dimension's offset.
  std::uint32_t leading;
  /// @brief The stride dimension's offset.
  std::uint32_t stride;
  /// @brief Where the swizzle's pattern begins, if not at a multiple of its length.
  std::uint32_t base_offset;
  /// @brief The swizzle.
  Swizzle swizzle;

  /// @brief Address of the first of 8 elements that follow each other: of row `along` from depth
  /// `depth` on (a multiple of 8), or by depth, from row `along` on (a multiple of 8) at `depth`.
  [[nodiscard]] std::uint32_t address_of(Major major, std::uint32_t along,
                                         std::uint32_t depth) const;
};

/// @brief Takes a descriptor apart.
[[nodiscard]] MatrixDescriptor decode_descriptor(std::uint64_t bits);

}  // namespace ultra::simt::emulator
