#pragma once
/// @file
/// A transport that writes down what it is asked for.

#include <memory>
#include <vector>

#include "common/comm/transport.hpp"

namespace ultra::gpu {
class Tape;
}  // namespace ultra::gpu

namespace ultra::comm {

/// @brief A group of ranks that do not exist, but for this one: notes operations, and has no messages.
/// @param tape     outlives the transport.
/// @param members  their ranks in the world.
/// @param rank     this rank's position among them.
[[nodiscard]] std::unique_ptr<Transport> make_meta_transport(gpu::Tape& tape,
                                                             std::vector<int> members, int rank);

}  // namespace ultra::comm
