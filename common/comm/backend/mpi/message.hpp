#pragma once
/// @file
/// Messages over MPI, cut into segments.
///
/// A message of n bytes travels as n / kSegment full segments and one of n % kSegment bytes, which may
/// be empty: the short segment is its end, so that a receiver that expects another size always sees
/// it. Segments let a receiver combine one while the next arrives, in memory that stays in the cache,
/// and no message is too long for MPI's int.
///
/// A receive looks at the size of what is there before it takes it (matched probe). It must: Open MPI
/// 4.1 writes a message that is too long past the end of the receiver's memory when it copies from
/// process to process (btl_vader's CMA), before it reports the truncation.

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>

#include "common/comm/backend/mpi/session.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm::mpi {

/// @brief Bytes of a full segment.
inline constexpr std::size_t kSegment = std::size_t{512} * 1024;
/// @brief Segments of one message that are under way at the same time.
inline constexpr int kWindow = 2;

/// @brief Begins to send.
///
/// MPI cannot withdraw a send: a receiver may still find it, and read the memory, until the run is
/// over. Destroyed early, the request leaves the session the parcel's owner until then.
[[nodiscard]] std::unique_ptr<Request> start_send(Session& session, const Address& to,
                                                  const Parcel& parcel);

/// @brief Begins to receive. Destroyed early, it takes nothing any more; for a segment that is arriving
/// just then, the session keeps the landing's owner.
[[nodiscard]] std::unique_ptr<Request> start_receive(Session& session, const Address& from,
                                                     const Landing& landing);

}  // namespace ultra::comm::mpi
