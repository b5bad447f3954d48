#pragma once
/// @file
/// OwnedPiece: elements of a parameter that a rank updates.

#include "common/nn/parameter.hpp"
#include "common/tensor/shape.hpp"

namespace ultra::train {

/// @brief A part of a parameter whose states this rank keeps.
struct OwnedPiece {
  const nn::Parameter* parameter = nullptr;  ///< of the model
  Range elements;                            ///< of the parameter, row-major
  /// This rank speaks for all that keep the piece: in norms it counts once.
  bool is_owner = true;
  /// This rank writes the piece to files: all ranks together write every element once.
  bool is_saver = true;
};

}  // namespace ultra::train
