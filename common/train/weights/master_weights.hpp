#pragma once
/// @file
/// MasterWeights: copies of weights in the type that the optimizer updates.

#include <cstddef>
#include <span>
#include <vector>

#include "common/nn/precision.hpp"
#include "common/optim/update_rule.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/gradients/owned_piece.hpp"

namespace ultra::train {

/// @brief The master weights of the pieces that a rank updates, on its device.
///
/// A piece has them where its parameter is trained, and its type narrower than the one that the optimizer
/// updates.
/// Memory: those elements, as MemoryCategory::kOptimizer: they are a state of the optimizer.
class MasterWeights {
 public:
  /// @brief Makes them with the values that the weights start from, before these are rounded.
  MasterWeights(std::span<const OwnedPiece> pieces, const nn::Precision& precision);

  MasterWeights(const MasterWeights&) = delete;
  MasterWeights& operator=(const MasterWeights&) = delete;
  virtual ~MasterWeights() = default;

  /// @brief [elements] The master weights of a piece; undefined where it has none.
  [[nodiscard]] virtual Tensor of(std::size_t piece) const { return masters_.at(piece); }

  /// @brief Copies the weights of a piece: the master weights, or `weights` where it has none.
  /// @param weights  [elements], on the device.
  /// @param out      [elements] on the CPU, of another type if need be.
  virtual void read(std::size_t piece, const Tensor& weights, const Tensor& out) const;
  /// @brief Replaces both, `weights` by what they round to.
  /// @param in  [elements] on the CPU.
  virtual void write(std::size_t piece, const Tensor& weights, const Tensor& in) const;

 protected:
  /// @brief For those that are elsewhere.
  MasterWeights() = default;

 private:
  std::vector<Tensor> masters_;  // by piece
};

/// @brief A rule around another one that updates master weights, where a piece has them, and rounds the
/// weights to nearest.
[[nodiscard]] optim::Rule update_master_weights(optim::Rule rule,
                                                const std::vector<OwnedPiece>& pieces);

}  // namespace ultra::train
