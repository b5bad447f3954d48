#pragma once
/// @file
/// Stored elements as the numbers that a training computes with.

#include <cstddef>
#include <span>

#include "common/checkpoint/safetensors/stored_type.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::checkpoint {

/// @brief Whether convert() reads elements of a type: F16, BF16, F32 and F64.
[[nodiscard]] bool is_converted(StoredType type);

/// @brief Converts stored elements: exactly where the type of `out` can hold them, else rounded to
/// the nearest.
/// @param bytes  out.numel() elements of `type`, little-endian.
/// @param out    [elements] of any floating type, contiguous, on the CPU.
/// @throws InternalError for a type that is not converted, and for another number of bytes.
/// Source: IEEE 754-2019, binary16; bfloat16 is the upper half of binary32.
void convert(std::span<const std::byte> bytes, StoredType type, const Tensor& out);

}  // namespace ultra::checkpoint
