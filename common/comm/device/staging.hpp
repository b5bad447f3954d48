#pragma once
/// @file
/// Staging: the detour of a device's bytes through the host's memory, where ranks are processes.

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/comm/device/memory_ops.hpp"
#include "common/comm/device/polling.hpp"

namespace ultra::comm {

/// @brief Pinned memory of the host for one message.
using HostBytes = std::shared_ptr<std::byte>;

/// @brief What one rank has on its way between its device and its host.
///
/// MPI reads and writes the host's memory: the host must look when a copy from the device has been
/// done before it can send. May be used by several threads.
class Staging {
 public:
  /// @param polling  of the rank.
  explicit Staging(std::shared_ptr<Polling> polling) : polling_(std::move(polling)) {}

  /// @brief Pinned memory beside `memory`'s device.
  [[nodiscard]] static HostBytes take(const DeviceMemory& memory, std::size_t bytes);

  /// @brief Puts a copy from the device into the communication stream; returns its end.
  [[nodiscard]] static gpu::Event download(const DeviceMemory& memory, const HostBytes& to,
                                           const void* from, std::size_t bytes);
  /// @brief Puts a copy to the device into the communication stream and keeps `from` until its end.
  void upload(const DeviceMemory& memory, void* to, const HostBytes& from, std::size_t bytes);

  /// @brief Keeps `bytes` until the event has passed.
  void keep(const DeviceMemory& memory, const gpu::Event& until, HostBytes bytes);

  /// @brief What waits for copies from the device.
  [[nodiscard]] const std::shared_ptr<Polling>& polling() const { return polling_; }

 private:
  struct Kept {
    Device device;
    gpu::Event until;
    HostBytes bytes;
  };
  std::shared_ptr<Polling> polling_;
  std::mutex mutex_;
  std::vector<Kept> kept_;
};

}  // namespace ultra::comm
