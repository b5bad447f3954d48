#pragma once
/// @file
/// A transport whose collectives and messages between GPUs are NCCL's.

#include <memory>

#include "common/comm/backend/nccl/nccl_group.hpp"
#include "common/comm/device/polling.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm::nccl {

/// @brief `inner`, whose collectives of tensors on GPUs are NCCL's, and with Use::messages its messages.
///
/// A message goes by ncclSend and ncclRecv on a communicator and a stream that its ordered pair of ranks
/// has for itself, made when the first one comes. NCCL matches by order alone, messages by their tags:
/// the receiver asks for each message, and the sender, when it has it, answers which is next; both of
/// these notes go through the host. So a message begins on a GPU only when both sides have posted it,
/// and what it waits for on either side was begun before: no two wait crosswise. Where NCCL cannot
/// connect a pair, because two ranks share a GPU or it is not there, `inner` carries its messages.
/// Cost: two notes of 16 bytes through the host to a message, and NCCL's buffers for each pair in use.
/// @param control  of the same group, without a slowed link.
/// @param polling  of the rank: NCCL wakes nobody.
[[nodiscard]] std::unique_ptr<Transport> with_nccl(std::shared_ptr<Transport> inner,
                                                   std::shared_ptr<Transport> control, Use use,
                                                   std::shared_ptr<Polling> polling);

}  // namespace ultra::comm::nccl
