#pragma once
/// @file
/// RopeScaling: rotary frequencies for longer sequences than a model was first trained on.

#include <cstddef>

namespace ultra::ops {

/// @brief Slows slow rotations down, and leaves fast ones alone.
///
/// A frequency whose wave is longer than original_positions / low_frequency_factor is divided by
/// `factor`; one whose wave is shorter than original_positions / high_frequency_factor stays; between
/// the two the share that stays grows with the number of waves in the original sequence.
/// Source: Grattafiori et al. 2024, "The Llama 3 Herd of Models", arXiv 2407.21783;
/// transformers, modeling_rope_utils.py, _compute_llama3_parameters.
struct RopeScaling {
  double factor = 1;                ///< by which the slowest rotations are slowed down
  double low_frequency_factor = 1;  ///< waves in the original sequence up to which all of it counts
  double high_frequency_factor = 4;  ///< and from which on none of it does; above the other
  std::size_t original_positions =
      0;  ///< tokens of the sequences that the model was first trained on

  /// @brief A frequency, in radians per position, as it is scaled.
  [[nodiscard]] double operator()(double frequency) const;

  bool operator==(const RopeScaling&) const = default;
};

}  // namespace ultra::ops
