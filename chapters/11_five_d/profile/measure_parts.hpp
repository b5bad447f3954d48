#pragma once
/// @file
/// What the parts of a block take on the ranks: products, attention, elementwise operations, and the
/// exchanges between them.
///
/// As in a training, inputs of forward passes and gradients have just been written, while weights and
/// what forward passes have saved come from the memory.

#include <vector>

#include "chapters/11_five_d/profile/machine_profile.hpp"

namespace ultra::profile {

/// @brief Matrix products of many shapes, each made as training makes it: forward, for the gradient of
/// its input, and for that of its weights. Collective.
///
[[nodiscard]] std::vector<ProductSpeed> measure_products(const Communicator& world, DType dtype);

/// @brief Causal attention, forward and backward: floating-point operations per second of those that
/// planner::block_seconds() counts (none for keys behind the mask, 2.5 times as many backward).
/// Collective.
[[nodiscard]] double measure_attention(const Communicator& world, const BlockExtents& block);

/// @brief Norms, rotations, SwiGLU and residual sums of a block, forward and backward: bytes per
/// second of those that planner::block_seconds() counts. Collective.
[[nodiscard]] double measure_elementwise(const Communicator& world, const BlockExtents& block);

/// @brief The exchanges of a sequence-parallel region, of one token and of a micro-batch, with what is
/// copied around them: what a step of a ring takes without bytes, and with them, while all other groups
/// do the same. Collective over world.
[[nodiscard]] LinkSpeed measure_exchange(const Communicator& world, const Communicator& group,
                                         const BlockExtents& block);

/// @brief How much longer products take beside sums over a group, as a part of the time of these sums
/// alone, while all other groups do the same: 0 is perfect overlap, 1 none. Sums travel in buckets as
/// in a backward pass, each begun when a part of the products is done. Collective over world; the same
/// on every rank.
[[nodiscard]] double measure_stolen(const Communicator& world, const Communicator& group,
                                    DType dtype);

}  // namespace ultra::profile
