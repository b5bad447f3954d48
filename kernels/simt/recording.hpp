#pragma once
/// @file
/// Launches that are recorded once and then queued as one: a CUDA graph on a GPU.

#include <functional>
#include <memory>

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief What only a GPU has.
namespace ultra::simt::gpu {
class Graph;
}  // namespace ultra::simt::gpu

namespace ultra::simt {

/// @brief A sequence of launches. What it was when it was recorded is what every replay does: the
/// arguments of that time, whatever has changed since.
class Recording {
 public:
  /// @brief What queues the launches.
  using Launches = std::function<void(const Queue&)>;

  /// @brief Nothing recorded yet.
  explicit Recording(Executor executor);
  /// @brief Drops the recording.
  ~Recording();
  /// @brief Kernels' launchers know its address.
  Recording(const Recording&) = delete;
  /// @brief Kernels' launchers know its address.
  Recording& operator=(const Recording&) = delete;

  /// @brief Queues the recorded launches; the first call records `launches`, later ones do not call
  /// it. On a GPU that is one call of the driver, however many launches there are.
  /// @throws SimtError (Fault::kCuda) when they cannot be recorded.
  void replay(const Queue& queue, const Launches& launches);

 private:
  Executor executor_;
  Launches recorded_;                  // in the emulator
  std::unique_ptr<gpu::Graph> graph_;  // on a GPU
};

}  // namespace ultra::simt
