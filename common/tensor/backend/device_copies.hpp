#pragma once
/// @file
/// What a Tensor does with memory that the host cannot read. All of it goes into the stream of the
/// calling thread's role (gpu::current_role).

#include "common/tensor/tensor.hpp"

namespace ultra::backend {

/// @brief Zeros in a contiguous tensor of a device with streams.
void clear_on_device(const Tensor& tensor);

/// @brief Sets every element of a view on a device with streams.
void fill_on_device(const Tensor& tensor, double value);

/// @brief The host's elements, row-major, into a contiguous tensor of a device with streams; `values`
/// is free again at the return.
void upload_to_device(const Tensor& to, const void* values);

/// @brief Copies `from` into `to`, converted to its element type, when at least one of them is on a
/// device with streams. Waits when `to` is on the host.
/// @pre  one shape; i32 goes to i32 alone.
void copy_on_devices(const Tensor& to, const Tensor& from);

}  // namespace ultra::backend
