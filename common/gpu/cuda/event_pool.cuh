#pragma once
/// @file
/// Events of a GPU, used again and again: making one costs more than recording it.

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "common/gpu/streams.hpp"

namespace ultra::gpu {

/// @brief Throws for a call of the CUDA run time that failed.
/// @throws Error naming the call, CUDA's own words and what to do.
void check_cuda(cudaError_t status, const char* call);

/// @brief Events of one device that nobody refers to. All members may be called from several threads.
class EventPool {
 public:
  /// @brief Events of a device; empty.
  explicit EventPool(int device) : device_(device) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// @brief An event that is not recorded yet.
  [[nodiscard]] cudaEvent_t take();
  /// @brief Keeps it for the next one.
  void give_back(cudaEvent_t event) noexcept;

 private:
  int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> waiting_;
};

/// @brief An event on loan from a pool.
struct CudaEvent : EventState {
  /// @brief Takes one.
  explicit CudaEvent(std::shared_ptr<EventPool> from)
      : pool(std::move(from)), event(pool->take()) {}
  ~CudaEvent() override { pool->give_back(event); }

  std::shared_ptr<EventPool> pool;  ///< whose it is
  cudaEvent_t event;                ///< the handle
};

}  // namespace ultra::gpu
