#pragma once
/// @file
/// TextHash: the fingerprint of a long text.

#include <array>
#include <cstdint>
#include <span>

namespace ultra::data {

/// @brief A number that stands for a text, computed piece by piece: the same on every machine,
/// another one for another text, almost certainly. No protection against forgery.
///
/// Cost: four multiplications in parallel per 32 bytes, so that it reads as fast as memory does.
/// Source: XXH64 with seed 0, by the xxHash specification.
class TextHash {
 public:
  /// @brief Adds the next bytes of the text, any number of them.
  void add(std::span<const std::uint8_t> bytes);

  /// @brief The number of all bytes so far.
  [[nodiscard]] std::uint64_t value() const;

 private:
  static constexpr std::size_t kStripe = 32;

  void add_stripe(const std::uint8_t* bytes);

  std::array<std::uint64_t, 4> lanes_{0x60EA27EEADC0B5D6U, 0xC2B2AE3D27D4EB4FU, 0,
                                      0x61C8864E7A143579U};
  std::array<std::uint8_t, kStripe> rest_{};  // the bytes behind the last whole stripe
  std::uint64_t size_ = 0;
};

}  // namespace ultra::data
