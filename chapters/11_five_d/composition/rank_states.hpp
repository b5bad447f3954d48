#pragma once
/// @file
/// The bytes of states that a rank of any mesh keeps, to the byte: padding of shards included.

#include <cstddef>

#include "chapters/01_memory/memory_estimate.hpp"
#include "common/train/cli/technique.hpp"

namespace ultra::five_d {

/// @brief The most that a rank of the mesh keeps, by closed form: its tensors, as chapters 05, 07 and 08
/// deal them out, in the flat arrays of chapter 04, each cut among the ranks of its data group:
/// with --zero 3 the shards of weights, from --zero 2 on those of gradients, and the states of what it
/// updates.
/// @param setup  all flags of a training, settled; without --offload and --zero++, and with a
///               schedule that updates once in a step.
/// @param rank   in the mesh.
/// @throws ConfigError when the stages' layers are measured.
[[nodiscard]] memory::StateBytes state_bytes(const train::Setup& setup, std::size_t rank);

}  // namespace ultra::five_d
