#pragma once
/// @file
/// TokenSource: where the tokens of a text stand.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ultra::data {

/// @brief How a file holds a text.
enum class TokenFormat : std::uint8_t {
  kBytes,  ///< any file: each byte is a token
  kU16,    ///< token ids of 16 bits, one after the other, little-endian
  kU32,    ///< token ids of 32 bits
};

/// @brief A file with a text, and what it must be.
struct DataFile {
  std::string path;                          ///< empty: the workbook's own text
  TokenFormat format = TokenFormat::kBytes;  ///< how it holds the tokens
  std::size_t vocab_size = 256;              ///< all tokens must be below it
  std::string mask = {};                     ///< a file that says which have a loss; empty: all
};

/// @brief The tokens of a text, wherever they are. Several threads may read at once.
class TokenSource {
 public:
  TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;
  virtual ~TokenSource() = default;

  /// @brief Number of tokens.
  [[nodiscard]] virtual std::size_t size() const = 0;
  /// @brief The tokens from `first` on, as many as `tokens` takes; the text has them.
  /// @throws FileError when the file cannot be read.
  virtual void read(std::size_t first, std::span<std::uint32_t> tokens) const = 0;
  /// @brief The place of a token in the file: its first byte.
  [[nodiscard]] virtual std::size_t byte_of(std::size_t index) const = 0;
};

}  // namespace ultra::data
