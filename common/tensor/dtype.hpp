#pragma once
/// @file
/// Element types, and the one place where a run-time dtype becomes a C++ type.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/base/errors.hpp"

namespace ultra {

/// @brief Element type of a tensor.
enum class DType { kF32, kF64, kI32 };

/// @brief Bytes per element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) { return dtype == DType::kF64 ? 8 : 4; }

/// @brief "f32", "f64" or "i32".
[[nodiscard]] std::string_view to_string(DType dtype);

/// @brief Parses "f32" or "f64".
/// @throws ConfigError for any other text.
[[nodiscard]] DType parse_float_dtype(const std::string& text);

/// @brief Scalars that training computes with. Requires: float or double.
template <class T>
concept FloatingScalar = std::is_same_v<T, float> || std::is_same_v<T, double>;

/// @brief The DType of a C++ scalar type.
template <class T>
[[nodiscard]] constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::kF32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::kF64;
  } else {
    static_assert(std::is_same_v<T, std::int32_t>, "no DType for this C++ type");
    return DType::kI32;
  }
}

/// @brief Calls `fn.operator()<float>()` or `<double>()` for a floating dtype.
/// @throws ShapeError for an integer dtype.
template <class Fn>
decltype(auto) dispatch_float(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kF32:
      return fn.template operator()<float>();
    case DType::kF64:
      return fn.template operator()<double>();
    case DType::kI32:
      break;
  }
  throw ShapeError("expected a tensor of f32 or f64, found i32");
}

}  // namespace ultra
