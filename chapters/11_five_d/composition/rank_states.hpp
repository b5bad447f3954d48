#pragma once
/// @file
/// The bytes of states that a rank of any mesh keeps, to the byte: padding of shards included.

#include <cstddef>

#include "common/train/cli/technique.hpp"

namespace ultra::five_d {

/// @brief Highest bytes of a rank's states in a training.
struct StateBytes {
  std::size_t parameters = 0;  ///< weights that are kept; with --zero 3 the shards
  std::size_t gradients = 0;   ///< those kept until the update; from --zero 2 on the shards
  std::size_t optimizer = 0;   ///< two moments of each weight that the rank updates

  bool operator==(const StateBytes&) const = default;
};

/// @brief What a rank of the mesh keeps, by closed form: its tensors, as chapters 05, 07 and 08
/// deal them out, in the flat arrays of chapter 04, each cut among the ranks of its data group.
/// @param setup  all flags of a training, settled; without --offload and --zero++, and with a
///               schedule that updates once in a step.
/// @param rank   in the mesh.
/// @throws ConfigError when the stages' layers are measured.
[[nodiscard]] StateBytes state_bytes(const train::Setup& setup, std::size_t rank);

}  // namespace ultra::five_d
