#pragma once
/// @file
/// What communication does with the memory of tensors: copies and combines it, on the host or on a
/// device.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "common/comm/collectives/reduce_op.hpp"
#include "common/gpu/streams.hpp"
#include "common/tensor/device.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::comm {

/// @brief Copies and combines memory of one kind. On the host a member returns when that is done, on a
/// device when it has been put into the communication stream.
class MemoryOps {
 public:
  MemoryOps() = default;
  MemoryOps(const MemoryOps&) = delete;
  MemoryOps& operator=(const MemoryOps&) = delete;
  virtual ~MemoryOps() = default;

  /// @brief Copies `bytes` bytes; the two may be the same memory, but not overlap otherwise.
  virtual void copy(void* to, const void* from, std::size_t bytes) const = 0;
  /// @brief See comm::combine.
  virtual void combine(const Combine& how, void* into, const void* from,
                       std::size_t count) const = 0;
  /// @brief Sources and targets of one combine_all, at most.
  [[nodiscard]] virtual std::size_t most_combined() const = 0;
  /// @brief See comm::combine_all.
  virtual void combine_all(const Combine& how, std::span<void* const> into,
                           std::span<const void* const> from, std::size_t count) const = 0;
  /// @brief See comm::divide.
  virtual void divide(DType dtype, void* data, std::size_t count, int divisor) const = 0;
};

/// @brief The host's memory.
[[nodiscard]] const MemoryOps& host_memory();

/// @brief The memory of one rank's device, on its communication stream, for one operation. All members
/// may be called by any thread of the rank, one at a time.
class DeviceMemory : public MemoryOps {
 public:
  /// @brief The memory of `device`, which has streams.
  /// @param operation  for whom: in messages of the order checker and in the trace.
  [[nodiscard]] static std::shared_ptr<const DeviceMemory> of(const Device& device,
                                                              std::string operation);

  /// @brief The rank's device.
  [[nodiscard]] const Device& device() const { return device_; }
  /// @brief For whom.
  [[nodiscard]] const std::string& operation() const { return operation_; }
  /// @brief What is put into the communication stream from now on begins after `event`.
  void after(const gpu::Event& event) const;
  /// @brief The moment after all that was put into the communication stream.
  [[nodiscard]] gpu::Event record() const;

  void copy(void* to, const void* from, std::size_t bytes) const override;

 protected:
  /// @brief See of().
  DeviceMemory(const Device& device, std::string operation)
      : device_(device), operation_(std::move(operation)) {}

 private:
  Device device_;
  std::string operation_;
};

/// @brief into = from[0] op from[1] op ... element by element, in this order: see combine_all.
/// @param into  contiguous, of one shape, type and device with all of `from`; may be one of them.
/// @param from  at least one.
void combine_tensors(ReduceOp op, const Tensor& into, std::span<const Tensor> from);

}  // namespace ultra::comm
