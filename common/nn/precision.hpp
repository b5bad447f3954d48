#pragma once
/// @file
/// Precision: in which types a training keeps its numbers.

#include "common/tensor/dtype.hpp"

namespace ultra::nn {

/// @brief The element types of a training's states and activations.
///
/// Whatever they are, sums are made in accumulation_dtype() of them or wider.
struct Precision {
  DType parameters = DType::kF32;  ///< the weights that passes compute with
  DType gradients = DType::kF32;   ///< of the weights
  DType compute = DType::kF32;     ///< activations, and their gradients
  DType optimizer = DType::kF32;   ///< the weights that the optimizer updates: where they are wider
                                   ///< than those of the passes, it keeps them for itself

  /// @brief Everything in f32.
  constexpr Precision() = default;
  /// @brief Everything in one type.
  constexpr Precision(DType all)  // NOLINT(google-explicit-constructor): a type is a precision
      : parameters(all), gradients(all), compute(all), optimizer(all) {}

  /// @brief Whether the optimizer keeps weights of its own: master weights.
  [[nodiscard]] constexpr bool has_master_weights() const {
    return size_of(optimizer) > size_of(parameters);
  }

  /// @brief Equal when all types are.
  bool operator==(const Precision&) const = default;
};

}  // namespace ultra::nn
