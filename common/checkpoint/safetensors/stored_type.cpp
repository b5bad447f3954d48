#include "common/checkpoint/safetensors/stored_type.hpp"

namespace ultra::checkpoint {
namespace {

struct TypeEntry {
  std::string_view name;
  std::size_t bytes;
};

/// In the order of StoredType.
constexpr std::array<TypeEntry, kStoredTypes.size()> kTable = {{{"BOOL", 1},
                                                                {"U8", 1},
                                                                {"I8", 1},
                                                                {"F8_E5M2", 1},
                                                                {"F8_E4M3", 1},
                                                                {"I16", 2},
                                                                {"U16", 2},
                                                                {"F16", 2},
                                                                {"BF16", 2},
                                                                {"I32", 4},
                                                                {"U32", 4},
                                                                {"F32", 4},
                                                                {"F64", 8},
                                                                {"I64", 8},
                                                                {"U64", 8}}};

const TypeEntry& entry_of(StoredType type) { return kTable.at(static_cast<std::size_t>(type)); }

}  // namespace

std::size_t size_of(StoredType type) { return entry_of(type).bytes; }

std::string_view to_string(StoredType type) { return entry_of(type).name; }

std::optional<StoredType> parse_stored_type(std::string_view name) {
  for (const StoredType type : kStoredTypes) {
    if (to_string(type) == name) return type;
  }
  return std::nullopt;
}

std::optional<DType> dtype_for(StoredType type) {
  if (type == StoredType::kF32) return DType::kF32;
  if (type == StoredType::kF64) return DType::kF64;
  if (type == StoredType::kI32) return DType::kI32;
  if (type == StoredType::kBF16) return DType::kBF16;
  if (type == StoredType::kF16) return DType::kF16;
  return std::nullopt;
}

StoredType stored_type_for(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return StoredType::kF32;
    case DType::kF64:
      return StoredType::kF64;
    case DType::kBF16:
      return StoredType::kBF16;
    case DType::kF16:
      return StoredType::kF16;
    case DType::kI32:
      break;
  }
  return StoredType::kI32;
}

}  // namespace ultra::checkpoint
