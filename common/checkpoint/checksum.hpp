#pragma once
/// @file
/// The checksum by which a checkpoint notices that its bytes have changed.

#include <cstddef>
#include <cstdint>
#include <span>

namespace ultra::checkpoint {

/// @brief CRC-32 of bytes (zlib's): one flipped bit always changes it.
/// @param before  that of the bytes before these; 0 when there are none.
[[nodiscard]] std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace ultra::checkpoint
