#pragma once
/// @file
/// Numbers as words of a message, and back.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "common/tensor/dtype.hpp"

namespace ultra::data_parallel {

/// @brief Words that one element takes.
[[nodiscard]] constexpr std::size_t words_of(DType dtype) {
  return size_of(dtype) / sizeof(std::int32_t);
}

/// @brief Copies numbers to a message, byte by byte.
/// @return where the message goes on.
template <class T>
std::int32_t* put(std::int32_t* at, std::span<const T> numbers) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::int32_t) == 0);
  if (!numbers.empty()) std::memcpy(at, numbers.data(), numbers.size_bytes());
  return at + numbers.size_bytes() / sizeof(std::int32_t);
}

/// @brief Number `index` of those in a message from `at` on.
template <class T>
[[nodiscard]] T number_at(const std::int32_t* at, std::size_t index) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::int32_t) == 0);
  T number;
  std::memcpy(&number, at + index * (sizeof(T) / sizeof(std::int32_t)), sizeof(T));
  return number;
}

}  // namespace ultra::data_parallel
