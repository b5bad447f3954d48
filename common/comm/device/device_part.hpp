#pragma once
/// @file
/// DevicePart: what of an operation happens on the streams of a device.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/device/memory_ops.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::comm {

/// @brief When an operation on a device's tensors may begin, and when it ends, as moments of streams.
///
/// The host only brings the ranks together and fills streams: nobody waits for the device. An operation
/// begins after what the stream of its caller had been given when it was issued; what its caller
/// launches after Work::wait begins after its end.
class DevicePart {
 public:
  /// @brief Of an operation on the host's memory: there is none.
  DevicePart() = default;
  /// @brief Of an operation on these tensors, of which undefined ones are passed over: begins after
  /// what the calling thread's stream was given so far.
  /// @param operation  its name in messages and in the trace.
  DevicePart(const std::vector<Tensor>& tensors, const std::string& operation);
  /// @brief A part that has not ended yet, like the other one.
  DevicePart(const DevicePart& other) : device_(other.device_), ready_(other.ready_) {}
  DevicePart& operator=(const DevicePart&) = delete;
  /// If nobody has joined it: what the rank communicates from now on comes after it, and with it the
  /// next use of its tensors' memory.
  ~DevicePart();

  /// @brief Whether there is one.
  [[nodiscard]] bool exists() const { return device_ != nullptr; }
  /// @brief The memory: the device's, or the host's.
  [[nodiscard]] const MemoryOps& memory() const { return exists() ? *device_ : host_memory(); }
  /// @brief The device's memory; null on the host.
  [[nodiscard]] const std::shared_ptr<const DeviceMemory>& device() const { return device_; }
  /// @brief When the tensors may be read and written.
  [[nodiscard]] const gpu::Event& ready() const { return ready_; }

  /// @brief One more moment after which the operation has ended.
  void ends_at(const gpu::Event& event) { ends_.push_back(event); }
  /// @brief The operation ends when the other one has ended, too.
  void ends_with(const DevicePart& other);
  /// @brief When it ends: after all of these.
  [[nodiscard]] const std::vector<gpu::Event>& ends() const { return ends_; }

  /// @brief Whether the device has come to its beginning.
  [[nodiscard]] bool has_begun() const;
  /// @brief Whether the device has done it.
  [[nodiscard]] bool has_ended() const;
  /// @brief What the calling thread launches from now on begins after the operation's end.
  void join() const;

 private:
  std::shared_ptr<const DeviceMemory> device_;
  gpu::Event ready_;
  std::vector<gpu::Event> ends_;
  mutable std::atomic<bool> joined_ = false;
};

}  // namespace ultra::comm
