#pragma once
/// @file
/// What the launchers of Hopper's rungs do on the host, on every executor: refuse what they cannot do,
/// describe matrices to TMA, count multiprocessors, launch clusters.

#include <cstdint>

#include "kernels/simt/small_floats.cuh"

namespace ultra::kernels::hopper {

/// @brief A matrix [rows, columns] of bf16 for each head of each sequence.
struct HeadMatrices {
  int sequences;  ///< of the batch
  int heads;      ///< of a sequence
  int rows;       ///< of a matrix: tokens
  int columns;    ///< of a row: elements of a head
  bool rows_first =
      false;  ///< [sequences, rows, heads, columns], not [sequences, heads, rows, columns]

  /// @brief Bytes from a row of a matrix to the next one.
  [[nodiscard]] std::uint64_t row_bytes() const { return (rows_first ? heads : 1) * bytes(1); }
  /// @brief Bytes from a head's matrix to the next head's.
  [[nodiscard]] std::uint64_t head_bytes() const { return bytes(rows_first ? 1 : rows); }
  /// @brief Bytes from a sequence's matrices to the next one's.
  [[nodiscard]] std::uint64_t sequence_bytes() const { return heads * bytes(rows); }

 private:
  [[nodiscard]] std::uint64_t bytes(int of_rows) const {
    return static_cast<std::uint64_t>(of_rows) * static_cast<std::uint64_t>(columns) *
           sizeof(simt::bf16);
  }
};

}  // namespace ultra::kernels::hopper

#if defined(__CUDACC__)

#include <utility>

#include "kernels/hopper/tma.cuh"
#include "kernels/simt/simt.cuh"

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

/// @brief The same of a matrix for each head of each sequence: a box lies in one of them, and what is
/// outside of it is zeros, not the next one's rows.
[[nodiscard]] TensorMap describe_heads(const void* first, const HeadMatrices& of, int box_rows);

/// @brief Launches a kernel whose blocks form clusters of `blocks`, which it must say itself, too
/// (__cluster_dims__).
/// @throws simt::SimtError as simt::launch().
template <unsigned blocks, typename... Parameters, typename... Arguments>
void launch_clusters(void (*kernel)(Parameters...), const simt::Config& config,
                     Arguments&&... arguments) {
  simt::launch(kernel, config, std::forward<Arguments>(arguments)...);
}

/// @brief Multiprocessors of the current GPU, without those that the queue spares: a quarter at most.
/// @throws simt::SimtError
[[nodiscard]] unsigned count_multiprocessors(const simt::Queue& queue);

}  // namespace ultra::kernels::hopper

#else

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "kernels/hopper/tma.cuh"

namespace ultra::kernels::hopper {
namespace {

/// @brief The emulator has what Hopper has.
inline void expect_hopper(const char*) {}

/// @brief Matrices [rows, columns] of bf16, as TMA hears of them: boxes of [box_rows, 64], swizzled.
inline TensorMap describe_matrices(const void* first, const HeadMatrices& of, int box_rows,
                                   unsigned rank) {
  constexpr unsigned kBoxColumns = 64;  // 128 bytes, the span of the swizzle
  TensorMap map{
      .address = static_cast<std::byte*>(const_cast<void*>(first)),
      .element_bytes = sizeof(simt::bf16),
      .rank = rank,
      .extents = {static_cast<std::uint64_t>(of.columns), static_cast<std::uint64_t>(of.rows),
                  static_cast<std::uint64_t>(of.heads), static_cast<std::uint64_t>(of.sequences)},
      .byte_strides = {sizeof(simt::bf16), of.row_bytes(), of.head_bytes(), of.sequence_bytes()},
      .box = {kBoxColumns, static_cast<std::uint32_t>(box_rows), 1, 1},
      .swizzle = simt::emulator::Swizzle::k128};
  simt::emulator::check_tensor_map(map);
  return map;
}

/// @brief Describes a matrix [rows, columns] of bf16 to TMA: boxes of [box_rows, 64], 128-byte rows,
/// swizzled; zeros outside. columns is a multiple of 8, box_rows at most 256.
/// @throws simt::SimtError when the driver would refuse the matrix.
[[nodiscard]] inline TensorMap describe_matrix(const simt::bf16* matrix, int rows, int columns,
                                               int box_rows) {
  return describe_matrices(matrix, {1, 1, rows, columns}, box_rows, 2);
}

/// @brief The same of a matrix for each head of each sequence: a box lies in one of them.
[[nodiscard]] inline TensorMap describe_heads(const void* first, const HeadMatrices& of,
                                              int box_rows) {
  return describe_matrices(first, of, box_rows, 4);
}

/// @brief Launches a kernel whose blocks form clusters of `blocks`.
/// @throws simt::SimtError as simt::launch().
template <unsigned blocks, simt::Executor executor = simt::kExecutor, typename... Parameters,
          typename... Arguments>
void launch_clusters(void (*kernel)(Parameters...), const simt::Config& config,
                     Arguments&&... arguments) {
  using Call = std::pair<void (*)(Parameters...), std::tuple<Parameters...>>;
  const Call call(kernel, std::tuple<Parameters...>(std::forward<Arguments>(arguments)...));
  const auto call_kernel = [](const void* data) {
    const auto& [function, values] = *static_cast<const Call*>(data);
    std::apply(function, values);
  };
  simt::emulator::run_in_clusters(
      config,
      {.call = call_kernel, .kernel = reinterpret_cast<std::uintptr_t>(kernel), .arguments = &call},
      executor, blocks);
}

/// @brief Multiprocessors of the emulated GPU, without those that the queue spares: a quarter at most.
[[nodiscard]] inline unsigned count_multiprocessors(const simt::Queue& queue) {
  constexpr unsigned kAll = simt::emulator::kMultiprocessors;
  return kAll - std::min(queue.spare_multiprocessors, kAll / 4);
}

}  // namespace
}  // namespace ultra::kernels::hopper

#endif
