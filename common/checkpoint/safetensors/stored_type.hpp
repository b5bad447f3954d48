#pragma once
/// @file
/// StoredType: the element types of the safetensors format.

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "common/tensor/dtype.hpp"

namespace ultra::checkpoint {

/// @brief Element type of a tensor in a safetensors file; most of them are no DType of ours.
enum class StoredType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64
};

/// All element types, in the order of their declaration.
inline constexpr std::array<StoredType, 15> kStoredTypes = {
    StoredType::kBool, StoredType::kU8,  StoredType::kI8,  StoredType::kF8E5M2, StoredType::kF8E4M3,
    StoredType::kI16,  StoredType::kU16, StoredType::kF16, StoredType::kBF16,   StoredType::kI32,
    StoredType::kU32,  StoredType::kF32, StoredType::kF64, StoredType::kI64,    StoredType::kU64};

/// @brief Bytes per element.
[[nodiscard]] std::size_t size_of(StoredType type);

/// @brief The format's name of the type: "BF16", "F8_E4M3" and so on.
[[nodiscard]] std::string_view to_string(StoredType type);

/// @brief The type of that name, if there is one.
[[nodiscard]] std::optional<StoredType> parse_stored_type(std::string_view name);

/// @brief The dtype of a tensor that holds such elements, if there is one: F32, F64, BF16, F16 and
/// I32 have.
[[nodiscard]] std::optional<DType> dtype_for(StoredType type);

/// @brief How the elements of a tensor are stored.
[[nodiscard]] StoredType stored_type_for(DType dtype);

}  // namespace ultra::checkpoint
