#pragma once
/// @file
/// Runtime: a device with streams as the system gives it: memory, pinned memory, streams.

#include <cstddef>
#include <memory>
#include <string>

#include "common/gpu/streams.hpp"

namespace ultra::kernels {
struct Table;
}  // namespace ultra::kernels

namespace ultra::gpu {

/// @brief What a device is.
struct DeviceProperties {
  std::string name;                  ///< such as "NVIDIA H100 80GB HBM3"
  std::string id;                    ///< its PCI address: the same for every process of the machine
  std::size_t total_bytes = 0;       ///< its memory; 0 where it has no limit of its own
  int compute_capability_major = 0;  ///< 9 for an H100
  int compute_capability_minor = 0;  ///< 0 for an H100
  int ordinal = 0;                   ///< which of the devices that this process sees it is
};

/// @brief One device's memory and streams. All members may be called from several threads.
/// Bodies: common/gpu/emulated/emulated_runtime.cpp, common/gpu/cuda/cuda_runtime.cu.
class Runtime {
 public:
  Runtime() = default;
  virtual ~Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// @brief What the device is.
  [[nodiscard]] virtual const DeviceProperties& properties() const = 0;

  /// @brief The kernels that run on it.
  [[nodiscard]] virtual const kernels::Table& kernels() const = 0;

  /// @brief Memory of the device, aligned to 256 bytes.
  /// @throws std::bad_alloc when the device has no more.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  /// @brief Gives memory of the device back. May wait for the device.
  virtual void release(void* block, std::size_t bytes) noexcept = 0;

  /// @brief Memory of the host that copies reach without a detour, aligned to 64 bytes.
  /// @throws std::bad_alloc when the system has no more.
  [[nodiscard]] virtual void* allocate_pinned(std::size_t bytes) = 0;
  /// @brief Gives pinned memory back.
  virtual void release_pinned(void* block, std::size_t bytes) noexcept = 0;

  /// @brief Bytes of the device's memory that nobody holds, of any process; 0 where there is no
  /// limit.
  [[nodiscard]] virtual std::size_t free_bytes() const = 0;

  /// @brief True when the host can read the device's memory: the emulated device.
  [[nodiscard]] virtual bool host_can_read() const = 0;

  /// @brief New streams, one for each role.
  /// @param rank  whose they are, for messages.
  [[nodiscard]] virtual std::unique_ptr<Streams> make_streams(int rank) = 0;
};

/// @brief The GPU of a rank: its place on the machine, modulo the number of GPUs that this process sees.
/// @throws ConfigError without CUDA in this build, without a driver or GPU, or when the GPU or the
/// driver is too old; the message says which.
[[nodiscard]] std::shared_ptr<Runtime> make_cuda_runtime(int rank);

/// @brief A device that the host emulates: its memory is the host's, its streams do their work at once,
/// and the order checker watches them.
[[nodiscard]] std::shared_ptr<Runtime> make_emulated_runtime();

}  // namespace ultra::gpu
