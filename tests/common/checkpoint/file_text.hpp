#pragma once
/// @file
/// Safetensors files as texts, put together as the specification says: without the code under test.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ultra::checkpoint {

/// @brief A number as 8 bytes, the lowest first.
[[nodiscard]] inline std::string length_bytes(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// @brief The length of the JSON, the JSON, the data.
[[nodiscard]] inline std::string file_text(std::string_view json, std::string_view data = "") {
  return length_bytes(json.size()) + std::string(json) + std::string(data);
}

/// @brief The same, with as much data: zeros.
[[nodiscard]] inline std::string file_text(std::string_view json, std::size_t data_bytes) {
  return file_text(json, std::string(data_bytes, '\0'));
}

}  // namespace ultra::checkpoint
