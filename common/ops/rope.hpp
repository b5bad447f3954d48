#pragma once
/// @file
/// Rotary position embedding.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/ops/rope_scaling.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief Direction of the rotation: forward, or back as the gradient needs it.
enum class Rotation { kForward, kBackward };

/// @brief Cosines and sines of all positions up to a longest sequence.
class RopeTable {
 public:
  /// @param head_dim       even number of elements per head.
  /// @param num_positions  positions 0 to num_positions - 1 can be rotated.
  /// @param theta          base of the frequencies, 10000 in the paper.
  /// @param scaling        of the frequencies; absent: they stay as they are.
  /// @param rotated        even number of elements per head that are rotated, the first half of them
  ///                       in front of each half of the head; 0: all.
  /// @throws ConfigError when head_dim is odd.
  RopeTable(const Device& device, DType dtype, std::size_t head_dim, std::size_t num_positions,
            double theta, const std::optional<RopeScaling>& scaling = {}, std::size_t rotated = 0);

  /// @brief [num_positions, head_dim / 2], cosines.
  [[nodiscard]] const Tensor& cosines() const { return cosines_; }
  /// @brief [num_positions, head_dim / 2], sines.
  [[nodiscard]] const Tensor& sines() const { return sines_; }

 private:
  Tensor cosines_;
  Tensor sines_;
};

/// @brief Rotates each head by its position, in place.
///
/// Element i of the first half is paired with element i of the second half, as in Llama's published
/// weights, and turned by position * theta^(-2i / head_dim).
/// @param x          [batch, seq, heads, head_dim], contiguous; of the table's type, or of bf16 or
///                   f16 with a table of f32.
/// @param positions  [seq], absolute position of each row.
/// @throws ShapeError when a position is not in the table.
/// Source: Su et al. 2021, "RoFormer", arXiv 2104.09864, sec. 3.2.2.
void rope_into(const Tensor& x, const RopeTable& table, std::span<const std::int32_t> positions,
               Rotation rotation);

}  // namespace ultra::ops
