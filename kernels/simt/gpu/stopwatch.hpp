#pragma once
/// @file
/// The GPU's own clock, without CUDA's headers: stopwatch.cu asks the CUDA run time,
/// stopwatch_stub.cpp serves builds without CUDA.

#include <memory>

namespace ultra::simt::gpu {

/// @brief Measures the time between two points of the default stream.
class Stopwatch {
 public:
  /// @brief Makes its events, and the memory that flush_cache() reads.
  /// @throws SimtError (Fault::kCuda) without a GPU; always in a build without CUDA.
  Stopwatch();
  /// @brief Gives them back.
  ~Stopwatch();
  /// @brief Events have one owner.
  Stopwatch(const Stopwatch&) = delete;
  /// @brief Events have one owner.
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// @brief Queues reads that fill the second-level cache, so that what follows reads from memory.
  /// They leave nothing in it that has still to be written back.
  void flush_cache();
  /// @brief Queues the first point.
  void start();
  /// @brief Queues the second point, and waits for it.
  /// @return seconds between the two.
  /// @throws SimtError (Fault::kCuda) when something between them failed.
  [[nodiscard]] double stop();

 private:
  struct Events;
  std::unique_ptr<Events> events_;
};

}  // namespace ultra::simt::gpu
