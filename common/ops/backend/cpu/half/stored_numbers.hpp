#pragma once
/// @file
/// How operations on numbers of two bytes read and write: as f32, a tile at a time.

#include <algorithm>
#include <array>
#include <cstddef>

#include "common/tensor/tensor.hpp"

namespace ultra::ops::cpu::half {

/// Elements that are converted at once: three operands of them stay in the first-level cache.
inline constexpr std::size_t kTile = 1024;

/// @brief Where a tile stands in f32 while it is worked on.
struct alignas(64) TileBuffer {
  std::array<float, kTile> numbers;  ///< set when a tile is read

  /// @brief The first element.
  [[nodiscard]] float* data() { return numbers.data(); }
};

/// @brief The elements of a contiguous f32, bf16 or f16 tensor, as f32 numbers.
///
/// Elements of f32 are read and written where they stand, others by way of a buffer.
class StoredNumbers {
 public:
  /// @param tensor  contiguous; outlives this.
  /// @throws ShapeError when it is not contiguous, or of another type.
  explicit StoredNumbers(const Tensor& tensor);

  /// @brief Elements [begin, begin + count).
  /// @param buffer  room for `count` numbers, used when the elements are not f32.
  [[nodiscard]] const float* read(std::size_t begin, std::size_t count, float* buffer) const;

  /// @brief Where to write the elements from `begin` on: in place, or in the buffer.
  [[nodiscard]] float* room(std::size_t begin, float* buffer) const;

  /// @brief The same, with what the elements are now.
  [[nodiscard]] float* update(std::size_t begin, std::size_t count, float* buffer) const;

  /// @brief Rounds what was written to `room` into elements [begin, begin + count).
  void store(std::size_t begin, std::size_t count, const float* room) const;

 private:
  DType dtype_;
  void* data_;
};

/// @brief Calls fn(begin, count) for each tile of `count` elements.
template <class Fn>
void for_each_tile(std::size_t count, const Fn& fn) {
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    fn(begin, std::min(kTile, count - begin));
  }
}

}  // namespace ultra::ops::cpu::half
