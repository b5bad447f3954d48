#pragma once
/// @file
/// The shape of a launch. Kernels include it: it stays free of the standard library, which nvcc
/// would parse once per architecture.

#include <cstddef>

namespace ultra::simt {

/// @brief The extents of a grid or a block: x runs fastest.
struct Extents {
  /// @brief Fastest index.
  unsigned x = 1;
  /// @brief Middle index.
  unsigned y = 1;
  /// @brief Slowest index.
  unsigned z = 1;

  /// @brief How many blocks or threads these are.
  [[nodiscard]] constexpr std::size_t count() const { return std::size_t{x} * y * z; }
  /// @brief Equal extents.
  bool operator==(const Extents&) const = default;
};

/// @brief A CUDA stream without CUDA's headers: the handle is a cudaStream_t. The emulator runs every
/// launch at once and ignores it.
struct Stream {
  /// @brief The cudaStream_t; null is the default stream.
  void* handle = nullptr;
};

/// @brief When a launch may begin.
enum class Start {
  /// @brief When the kernel before it in the stream has ended.
  kBehindTheKernelBefore,
  /// @brief When all blocks of that kernel have allowed it or have ended; it waits by itself for what
  /// that kernel writes (dependent_launch.cuh). For GPUs since the H100.
  kBesideTheKernelBefore,
};

struct Report;

/// @brief Where launches go, and where what was counted goes.
struct Queue {
  /// @brief The stream on a GPU.
  Stream stream = {};
  /// @brief In the emulator, every launch adds its counters here; null when nobody asks.
  Report* report = nullptr;
  /// @brief Multiprocessors that kernels whose blocks stay leave to others: a block without one would begin
  /// when all others have ended, and twice the time would pass.
  unsigned spare_multiprocessors = 0;
};

/// @brief One launch: the values between <<< and >>>, and a name for reports.
struct Config {
  /// @brief The kernel's name, for messages and reports.
  const char* name = "";
  /// @brief Blocks.
  Extents grid = {};
  /// @brief Threads of each block, at most 1024.
  Extents block = {};
  /// @brief Dynamic shared memory of each block in bytes, at most kMostSharedBytes.
  std::size_t shared_bytes = 0;
  /// @brief Its stream, and who wants its counters.
  Queue queue = {};
  /// @brief When it may begin.
  Start start = Start::kBehindTheKernelBefore;
};

/// @brief Threads of the largest block.
inline constexpr std::size_t kMostThreads = 1024;

/// @brief The most dynamic shared memory a block can ask for: 227 KiB, an H100's limit.
inline constexpr std::size_t kMostSharedBytes = std::size_t{227} * 1024;

/// @brief Blocks or tiles of `size` that cover `count` elements.
constexpr unsigned ceil_div(std::size_t count, std::size_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

/// @brief Refuses a launch that no GPU accepts, with the limit that it breaks.
/// @throws SimtError (Fault::kLaunch)
void check_config(const Config& config);

}  // namespace ultra::simt
