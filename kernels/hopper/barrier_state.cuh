#pragma once
/// @file
/// What a barrier in shared memory is, on every side.

namespace ultra::kernels::hopper {

/// @brief A barrier, 8 bytes of shared memory.
struct Barrier {
  /// @brief The hardware's state.
  unsigned long long state;
};

}  // namespace ultra::kernels::hopper
