#pragma once
/// @file
/// meta_world: a world of which only one rank exists, as that rank sees it.

#include "common/comm/communicator.hpp"

namespace ultra::gpu {
class Tape;
}  // namespace ultra::gpu

namespace ultra::comm {

/// @brief The world of rank `rank` among `size`, in which no message travels: an operation stands on the
/// tape when it is called, counts in CommStats as in a world of threads, and has ended when it is asked.
///
/// For tensors of a meta device of this tape: Work::wait has the caller's stream wait for the end of a
/// collective or a receive, but never for a send, which nobody has to wait for. And for the host's, which
/// are answered as if every member were like this rank. Checks nothing, and asks no clock.
/// @param tape  outlives the world and all groups split off it.
/// @throws ConfigError when the world has no such rank.
[[nodiscard]] Communicator meta_world(int rank, int size, gpu::Tape& tape);

}  // namespace ultra::comm
