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
};

}  // namespace ultra::train
