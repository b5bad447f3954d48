#pragma once
/// @file
/// A file that is bytes in memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/errors.hpp"
#include "common/checkpoint/files/file_layer.hpp"

namespace ultra::test {

/// @brief Holds a copy of the bytes that it is made of.
class MemoryInput final : public checkpoint::InputFile {
 public:
  /// @brief A file of these bytes.
  explicit MemoryInput(std::span<const std::byte> bytes) : bytes_(bytes.begin(), bytes.end()) {}

  /// @brief A file of these characters.
  explicit MemoryInput(std::string_view text) : MemoryInput(std::as_bytes(std::span(text))) {}

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      throw FileError("a read beyond the end of a file in memory");
    }
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }

  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace ultra::test
