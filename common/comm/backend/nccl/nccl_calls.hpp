#pragma once
/// @file
/// Which calls of NCCL make a collective.

#include "common/comm/backend/nccl/nccl_library.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::comm::nccl {

/// @brief Where a collective's calls go.
struct Destination {
  const Library& library;  ///< whose functions
  Comm* comm;              ///< of the group
  void* stream;            ///< a cudaStream_t
  int rank;                ///< of this member
  int size;                ///< of the group
};

/// @brief Puts a collective into a stream. An average is a sum, to be divided when that has ended.
///
/// What NCCL has no function for is a group of its calls: gather, scatter and all_to_all of sends and
/// receives; all_gather with unequal chunks of broadcasts, reduce_scatter of reductions. Returns at once.
/// @throws CommError with NCCL's words.
void enqueue(const CollectiveCall& call, const Destination& to);

}  // namespace ultra::comm::nccl
