#pragma once
/// @file
/// PackedIntegers: small whole numbers in the bytes of a message, one or two to a byte.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "chapters/04_zero/zero_plus_plus/block_quantization.hpp"

namespace ultra::zero {

/// @brief Whole numbers in two's complement, numbered from the first byte on, whatever their blocks.
/// @tparam Word  std::int32_t of a message that is written, const std::int32_t of one that is read.
template <class Word>
class PackedIntegers {
  using Byte = std::conditional_t<std::is_const_v<Word>, const std::uint8_t, std::uint8_t>;

 public:
  /// @param at  the first word after the scales.
  PackedIntegers(QuantizedBits bits, Word* at)
      : four_(bits == QuantizedBits::kFour), bytes_(reinterpret_cast<Byte*>(at)) {}

  /// @brief Writes number i.
  /// @param q  from -largest_of(bits) to largest_of(bits).
  /// @pre what is there is 0: two numbers of 4 bits share a byte.
  void set(std::size_t i, int q) const {
    if (four_) {
      const auto nibble = static_cast<unsigned>(q) & 0xFU;
      bytes_[i / 2] = static_cast<std::uint8_t>(bytes_[i / 2] | nibble << (i % 2 * 4));
    } else {
      bytes_[i] = static_cast<std::uint8_t>(q);
    }
  }

  /// @brief Reads number i, with its sign.
  [[nodiscard]] int get(std::size_t i) const {
    if (!four_) return static_cast<std::int8_t>(bytes_[i]);
    const int nibble = bytes_[i / 2] >> (i % 2 * 4) & 0xF;
    return (nibble ^ 8) - 8;
  }

 private:
  bool four_;
  Byte* bytes_;
};

}  // namespace ultra::zero
