#pragma once
/// @file
/// MasterWeights: copies of weights in the type that the optimizer updates.

#include <cstddef>
#include <span>
#include <vector>

#include "common/nn/precision.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/gradients/owned_piece.hpp"

namespace ultra::train {

/// @brief The master weights of the pieces that a rank updates.
///
/// A piece has them where its parameter's type is narrower than the one that the optimizer updates.
/// Memory: those elements, as MemoryCategory::kOptimizer: they are a state of the optimizer.
class MasterWeights {
 public:
  /// @brief Makes them with the values that the weights start from, before these are rounded.
  MasterWeights(std::span<const OwnedPiece> pieces, const nn::Precision& precision);

  /// @brief [elements] The master weights of a piece; undefined where it has none.
  [[nodiscard]] const Tensor& of(std::size_t piece) const { return masters_.at(piece); }

  /// @brief Copies the weights of a piece: the master weights, or `weights` where it has none.
  /// @param weights  [elements], on the device.
  /// @param out      [elements] on the CPU, of another type if need be.
  void read(std::size_t piece, const Tensor& weights, const Tensor& out) const;
  /// @brief Replaces both, `weights` by what they round to.
  /// @param in  [elements] on the CPU.
  void write(std::size_t piece, const Tensor& weights, const Tensor& in) const;

 private:
  std::vector<Tensor> masters_;  // by piece
};

}  // namespace ultra::train
