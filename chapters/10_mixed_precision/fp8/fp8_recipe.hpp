#pragma once
/// @file
/// Fp8Recipe: how tensors get their scales when products are computed in fp8.

#include <cstddef>
#include <cstdint>

#include "chapters/10_mixed_precision/block_formats/quantized_matrix.hpp"

namespace ultra::mixed_precision {

/// @brief What a tensor's scale follows from.
enum class Scaling : std::uint8_t {
  kNone,       ///< nothing: scales of 1, to see what becomes of that
  kDelayed,    ///< the largest magnitude in earlier steps
  kCurrent,    ///< the tensor's own largest magnitude
  kBlockwise,  ///< those of tiles: 1 x 128 of activations and gradients, 128 x 128 of weights
};

/// @brief How the products of linear layers are computed in fp8.
struct Fp8Recipe {
  Scaling scaling = Scaling::kDelayed;  ///< where scales come from
  std::size_t history = 16;             ///< steps that delayed scaling looks back; at least 1
  int margin = 0;                       ///< powers of two between a scale and the largest that fits

  /// @brief The format of output gradients: they need range before precision, unless every tile has
  /// a scale of its own.
  [[nodiscard]] Fp8 gradient_format() const {
    return scaling == Scaling::kBlockwise ? Fp8::kE4m3 : Fp8::kE5m2;
  }
  /// @brief The tiles of activations and output gradients, as [tokens, features].
  [[nodiscard]] TileShape token_tile() const {
    return scaling == Scaling::kBlockwise ? kActivationTile : kPerTensor;
  }
  /// @brief The tiles of weights.
  [[nodiscard]] TileShape weight_tile() const {
    return scaling == Scaling::kBlockwise ? kWeightTile : kPerTensor;
  }
};

}  // namespace ultra::mixed_precision
