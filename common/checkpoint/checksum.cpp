#include "common/checkpoint/checksum.hpp"

#include <zlib.h>

namespace ultra::checkpoint {

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  return static_cast<std::uint32_t>(::crc32_z(before, data, bytes.size()));
}

}  // namespace ultra::checkpoint
