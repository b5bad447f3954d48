#pragma once
/// @file
/// The order of units of 16 bytes that TMA and the tensor cores share. Both swizzle addresses, not
/// indices: some of bits 7 to 9 of the address are added, without carry, to bits 4 to 6.
/// Source: PTX ISA, "Swizzling modes" of tensor maps and "Matrix Descriptor Format".

#include <cstdint>

namespace ultra::simt::emulator {

/// @brief How far a swizzle reaches; each is the bytes of a row that it goes with.
enum class Swizzle : std::uint8_t {
  /// @brief None: units lie as they are counted.
  kNone = 0,
  /// @brief 32 bytes: bit 7 to bit 4.
  k32 = 32,
  /// @brief 64 bytes: bits 7 and 8 to bits 4 and 5.
  k64 = 64,
  /// @brief 128 bytes: bits 7 to 9 to bits 4 to 6.
  k128 = 128,
};

/// @brief Bytes of a row that a swizzle goes with; 0 for none.
constexpr std::uint32_t row_bytes_of(Swizzle swizzle) {
  return static_cast<std::uint32_t>(swizzle);
}

/// @brief Where the byte at an address of shared memory lies.
constexpr std::uint32_t swizzled(std::uint32_t address, Swizzle swizzle) {
  const std::uint32_t units = row_bytes_of(swizzle) / 16;
  return units == 0 ? address : address ^ ((address >> 7 & (units - 1)) << 4);
}

}  // namespace ultra::simt::emulator
