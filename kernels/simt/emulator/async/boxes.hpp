#pragma once
/// @file
/// Boxes that TMA has on its way.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/simt/emulator/async/barriers.hpp"
#include "kernels/simt/emulator/async/clock.hpp"
#include "kernels/simt/emulator/async/tensor_map.hpp"
#include "kernels/simt/emulator/hooks.hpp"

namespace ultra::simt::emulator {

/// @brief A box on its way to shared memory.
struct BoxInFlight {
  /// @brief The tensor.
  TensorMap map;
  /// @brief Its place there.
  BoxPosition position;
  /// @brief The block that gets it, in its cluster.
  std::size_t block;
  /// @brief Its first byte in that block's shared memory.
  std::size_t offset;
  /// @brief Where its bytes count.
  PhaseBarrier* barrier;
  /// @brief The thread that asked for it.
  std::size_t thread;
  /// @brief The line.
  SourceLine place;
};

/// @brief A box on its way to global memory.
struct StoredBox {
  /// @brief The tensor.
  TensorMap map;
  /// @brief Its place there.
  BoxPosition position;
  /// @brief The block that it comes from.
  std::size_t block;
  /// @brief Its first byte in that block's shared memory.
  std::size_t offset;
  /// @brief The number of its group, from 0.
  std::uint32_t group;
  /// @brief The line.
  SourceLine place;
};

/// @brief The boxes that one thread stores.
struct StoreQueue {
  /// @brief Stands for what TMA reads of them: number g + 1 for group g.
  Slot slot = 0;
  /// @brief Groups made so far.
  std::uint32_t groups = 0;
  /// @brief Those that have not been read, oldest first.
  std::vector<StoredBox> boxes{};
};

}  // namespace ultra::simt::emulator
