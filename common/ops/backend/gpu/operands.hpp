#pragma once
/// @file
/// Tensors as kernels take them.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "common/gpu/streams.hpp"
#include "common/ops/matmul.hpp"
#include "common/tensor/regions.hpp"
#include "common/tensor/tensor.hpp"
#include "kernels/table/table.hpp"

/// @brief The operations on devices with streams, by kernels.
namespace ultra::ops::gpu {

namespace generic = kernels::generic;

/// @brief The elements of a contiguous tensor of floating-point numbers, to be read.
/// @throws ShapeError when it is not contiguous, or of i32.
[[nodiscard]] generic::Source source(const Tensor& tensor);

/// @brief The elements of a contiguous tensor of floating-point numbers, to be written.
/// @throws ShapeError when it is not contiguous, or of i32.
[[nodiscard]] generic::Target target(const Tensor& tensor);

/// @brief The elements of a contiguous i32 tensor, to be read.
/// @throws ShapeError when it is not contiguous, or of another type.
[[nodiscard]] const std::int32_t* integers(const Tensor& tensor);

/// @brief The first element, as a kernel's type.
template <class T>
[[nodiscard]] T* elements(const Tensor& tensor) {
  return static_cast<T*>(tensor.address());
}

/// @brief Terms of a leaf of a sum over an axis: of its SumTree where there are trees, else all.
[[nodiscard]] std::size_t leaf_of(const Device& device, std::size_t length);

/// @brief Scratch of generic::exact_sum_of() for that many terms; undefined where sums have no digits.
[[nodiscard]] Tensor partials_of_exact_sum(const Device& device, std::size_t terms);

/// @brief Its first number; null if it is undefined.
[[nodiscard]] std::int64_t* digits_in(const Tensor& partials);

/// @brief Whether a result replaces or is added to, as kernels name it.
[[nodiscard]] constexpr generic::Write write_of(Write write) {
  return write == Write::kOverwrite ? generic::Write::kOverwrite : generic::Write::kAdd;
}

/// @brief An operation that is launched: the device's kernels, and the queue that they go into.
class KernelLaunch {
 public:
  /// @brief See launch().
  KernelLaunch(const Device& device, std::string_view operation,
               const std::vector<ultra::gpu::Region>& reads,
               const std::vector<ultra::gpu::Region>& writes);
  /// @brief What the device runs.
  [[nodiscard]] const kernels::Table& kernels() const { return kernels_; }
  /// @brief Where its kernels are launched.
  [[nodiscard]] simt::Queue queue() const { return launch_.queue(); }

 private:
  const kernels::Table& kernels_;
  ultra::gpu::Launch launch_;
};

/// @brief An operation on the current stream of the first written tensor's device.
/// @throws gpu::OrderError as gpu::Streams::uses.
[[nodiscard]] KernelLaunch launch(std::string_view operation, std::initializer_list<Tensor> reads,
                                  std::initializer_list<Tensor> writes);

/// @brief A copy on the device of numbers that the host has; the host does not wait.
[[nodiscard]] Tensor upload(const Device& device, std::span<const std::int32_t> numbers);

/// @brief Positions that kernels of one launch after the other take.
class DevicePositions {
 public:
  /// @brief Puts those on the device that are more than a few runs.
  DevicePositions(const Device& device, std::span<const std::int32_t> positions);

  /// @brief What kernels take.
  [[nodiscard]] const generic::Positions& get() const { return positions_; }
  /// @brief The list that they read, if there is one.
  [[nodiscard]] const Tensor& list() const { return list_; }

 private:
  generic::Positions positions_;
  Tensor list_;
};

}  // namespace ultra::ops::gpu
