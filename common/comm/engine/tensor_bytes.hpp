#pragma once
/// @file
/// The memory of tensors as transports see it: bytes.

#include <cstddef>
#include <span>

#include "common/tensor/tensor.hpp"

namespace ultra::comm {

/// @brief All bytes of a contiguous tensor in the host's memory; none of an undefined one.
/// @throws ShapeError when the host cannot read them: see memory_of.
[[nodiscard]] std::span<std::byte> bytes_of(const Tensor& tensor);

/// @brief Where the bytes of a contiguous tensor are, on any device; none of an undefined one.
[[nodiscard]] std::span<std::byte> memory_of(const Tensor& tensor);

/// @brief Whether two contiguous tensors have an element's memory in common.
[[nodiscard]] bool overlap(const Tensor& a, const Tensor& b);

}  // namespace ultra::comm
