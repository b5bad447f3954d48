#pragma once
/// @file
/// Element types, and the one place where a run-time dtype becomes a C++ type.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/base/errors.hpp"
#include "common/tensor/half_types.hpp"

namespace ultra {

/// @brief Element type of a tensor.
enum class DType { kF32, kF64, kI32, kBF16, kF16 };

/// @brief Bytes per element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
      return 8;
  }
  return 0;
}

/// @brief True for the floating-point types of two bytes, which are stored and not computed in.
[[nodiscard]] constexpr bool is_half(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16;
}

/// @brief The type in which an operation on such elements computes and keeps its sums: f32 for the
/// two-byte types, else the type itself.
[[nodiscard]] constexpr DType accumulation_dtype(DType dtype) {
  return is_half(dtype) ? DType::kF32 : dtype;
}

/// @brief "f32", "f64", "i32", "bf16" or "f16".
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
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return DType::kBF16;
  } else if constexpr (std::is_same_v<T, Float16>) {
    return DType::kF16;
  } else {
    static_assert(std::is_same_v<T, std::int32_t>, "no DType for this C++ type");
    return DType::kI32;
  }
}

/// @brief Throws ShapeError: an operation on such elements computes in one of `expected` only.
[[noreturn]] void throw_unexpected_dtype(DType found, std::string_view expected);

/// @brief Calls `fn.operator()<float>()` or `<double>()` for a type that is computed in.
/// @throws ShapeError for i32 and the two-byte types.
template <class Fn>
decltype(auto) dispatch_float(DType dtype, Fn&& fn) {
  if (dtype == DType::kF32) return fn.template operator()<float>();
  if (dtype != DType::kF64) throw_unexpected_dtype(dtype, "f32 or f64");
  return fn.template operator()<double>();
}

/// @brief Calls `fn` with the C++ type of any floating-point type: float, double, BFloat16, Float16.
/// @throws ShapeError for i32.
template <class Fn>
decltype(auto) dispatch_stored(DType dtype, Fn&& fn) {
  if (dtype == DType::kBF16) return fn.template operator()<BFloat16>();
  if (dtype == DType::kF16) return fn.template operator()<Float16>();
  if (dtype == DType::kI32) throw_unexpected_dtype(dtype, "f32, f64, bf16 or f16");
  return dispatch_float(dtype, std::forward<Fn>(fn));
}

}  // namespace ultra
