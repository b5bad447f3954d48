#pragma once
/// @file
/// What TMA is told of a tensor in global memory, as cuTensorMapEncodeTiled() of the CUDA driver takes
/// it: the emulator's CUtensorMap. Source: CUDA Driver API, "Tensor Map Object Management".

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/simt/emulator/async/swizzle.hpp"

namespace ultra::simt::emulator {

/// @brief Dimensions of a tensor, at most.
inline constexpr std::size_t kMostDimensions = 5;

/// @brief A tensor and the boxes that are copied of it. The fastest dimension comes first. What lies
/// outside of the tensor is zeros.
struct TensorMap {
  /// @brief First byte.
  std::byte* address = nullptr;
  /// @brief Bytes of an element.
  std::uint32_t element_bytes = 0;
  /// @brief Dimensions, 1 to 5.
  std::uint32_t rank = 0;
  /// @brief Elements along each dimension.
  std::array<std::uint64_t, kMostDimensions> extents{};
  /// @brief Bytes from one index to the next; that of dimension 0 is element_bytes.
  std::array<std::uint64_t, kMostDimensions> byte_strides{};
  /// @brief Elements of a box along each dimension.
  std::array<std::uint32_t, kMostDimensions> box{};
  /// @brief The order of a box's units in shared memory.
  Swizzle swizzle = Swizzle::kNone;

  /// @brief Bytes of a box's row, which is what runs along dimension 0.
  [[nodiscard]] std::uint32_t box_row_bytes() const { return box[0] * element_bytes; }
  /// @brief Rows of a box.
  [[nodiscard]] std::uint32_t box_rows() const;
  /// @brief Bytes of a box.
  [[nodiscard]] std::uint32_t box_bytes() const { return box_rows() * box_row_bytes(); }
};

/// @brief The first element of a box; dimensions behind the rank are 0.
using BoxPosition = std::array<std::int32_t, kMostDimensions>;

/// @brief A row of a box, as far as it lies in the tensor.
struct BoxRow {
  /// @brief Its first byte in the box, before the swizzle.
  std::uint32_t box_offset = 0;
  /// @brief The part's first byte in the row.
  std::uint32_t skipped_bytes = 0;
  /// @brief The part's bytes; 0 where the row lies outside.
  std::uint32_t bytes = 0;
  /// @brief The part's first byte in global memory.
  std::byte* global = nullptr;
};

/// @brief Row number `row` of the box at `position`.
[[nodiscard]] BoxRow row_of_box(const TensorMap& map, const BoxPosition& position,
                                std::uint32_t row);

/// @brief Refuses what the driver refuses, and what is not modelled.
/// @throws SimtError (Fault::kLaunch) with the limit that is broken.
void check_tensor_map(const TensorMap& map);

}  // namespace ultra::simt::emulator
