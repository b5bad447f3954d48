#pragma once
/// @file
/// The host's side for a GPU. kernels/hopper/emulator/prepare.hpp has the same for the emulator.

#include <utility>

#include "kernels/hopper/gpu/tma.cuh"
#include "kernels/simt/simt.cuh"
#include "kernels/simt/small_floats.cuh"

namespace ultra::kernels::hopper {

/// @brief Refuses a GPU that is not of compute capability 9.0.
/// @param hint  what runs elsewhere, for the message.
/// @throws simt::SimtError
void expect_hopper(const char* hint);

/// @brief Describes a matrix [rows, columns] of bf16 to TMA: boxes of [box_rows, 64], 128-byte rows,
/// swizzled; zeros outside. columns is a multiple of 8, box_rows at most 256.
/// @throws simt::SimtError when the driver has no TMA, or refuses the matrix.
[[nodiscard]] TensorMap describe_matrix(const simt::bf16* matrix, int rows, int columns,
                                        int box_rows);

/// @brief The same of `layers` matrices behind each other: a box lies in one of them, and what is outside
/// of it is zeros, not the next one's rows.
[[nodiscard]] TensorMap describe_stack(const simt::bf16* matrices, int layers, int rows,
                                       int columns, int box_rows);

/// @brief Launches a kernel whose blocks form clusters of `blocks`, which it must say itself, too
/// (__cluster_dims__).
/// @throws simt::SimtError as simt::launch().
template <unsigned blocks, typename... Parameters, typename... Arguments>
void launch_clusters(void (*kernel)(Parameters...), const simt::Config& config,
                     Arguments&&... arguments) {
  simt::launch(kernel, config, std::forward<Arguments>(arguments)...);
}

/// @brief Multiprocessors of the current GPU.
/// @throws simt::SimtError
[[nodiscard]] unsigned count_multiprocessors();

}  // namespace ultra::kernels::hopper
