#pragma once
/// @file
/// TokenMask: which tokens of a text are learnt.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/tensor/shape.hpp"

namespace ultra::data {

/// @brief Which tokens of a text have a loss when they are to be predicted: a byte for each, 1 or 0.
///
/// Memory: a byte for each token of the text.
class TokenMask {
 public:
  /// @brief Reads a file with a byte for each token.
  /// @param tokens  of the text.
  /// @param text    what messages call it.
  /// @throws FileError when it is missing, not a regular file or unreadable, has another number of
  /// bytes, another byte than 0 and 1, or no 1.
  TokenMask(const std::filesystem::path& path, std::size_t tokens, const std::string& text);

  /// @brief Whether a token has a loss.
  [[nodiscard]] bool has_loss(std::size_t token) const { return bytes_[token] != 0; }
  /// @brief How many of these tokens have a loss.
  [[nodiscard]] std::size_t count(Range tokens) const;
  /// @brief A number that stands for the bytes: see TextHash.
  [[nodiscard]] std::uint64_t hash() const;

 private:
  std::vector<std::uint8_t> bytes_;
};

}  // namespace ultra::data
