#pragma once
/// @file
/// Native collectives: MPI's own, in their nonblocking form.

#include <mpi.h>

#include <memory>

#include "common/comm/backend/mpi/session.hpp"
#include "common/comm/engine/operation.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm::mpi {

/// @brief The collective as MPI does it; begins when all members are known to call the same, or
/// at once without checking.
///
/// An average is a sum that each rank divides at the end. MPI does not say which algorithm it takes:
/// what counts as sent is native_volume.hpp's.
/// @param transport  of the same group; carries the roll call.
/// @throws ConfigError for more elements than MPI's int can count.
[[nodiscard]] std::shared_ptr<Operation> make_native(Session& session,
                                                     std::shared_ptr<Transport> transport,
                                                     MPI_Comm comm, const CollectiveCall& call,
                                                     Checking checking);

}  // namespace ultra::comm::mpi
