#pragma once
/// @file
/// mpi_tag: the tags of messages as MPI's, which have fewer bits.

#include "common/comm/transport.hpp"

namespace ultra::comm::mpi {

/// @brief The tag of MPI that stands for ours.
/// @param tag_bits  of MPI's tags.
/// @throws CommError when they are too few for named messages.
[[nodiscard]] int mpi_tag(Tag tag, int tag_bits);

}  // namespace ultra::comm::mpi
