#pragma once
/// @file
/// A collective that NCCL carries out.

#include <memory>

#include "common/comm/backend/nccl/nccl_group.hpp"
#include "common/comm/device/polling.hpp"
#include "common/comm/engine/operation.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm::nccl {

/// @brief The collective as NCCL does it, on the group's own stream.
///
/// Begins when all members are known to call the same, or at once without checking. What counts as
/// sent is native_volume.hpp's.
/// @param control  of the group; carries the roll call.
/// @param polling  of the rank: NCCL wakes nobody.
/// @param inner    takes its place where NCCL cannot connect the group; null when there is none.
[[nodiscard]] std::shared_ptr<Operation> make_collective(const CollectiveCall& call,
                                                         std::shared_ptr<NcclGroup> group,
                                                         std::shared_ptr<Transport> control,
                                                         std::shared_ptr<Operation> inner,
                                                         Checking checking,
                                                         std::shared_ptr<Polling> polling);

}  // namespace ultra::comm::nccl
