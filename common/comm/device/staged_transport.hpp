#pragma once
/// @file
/// Messages and collectives of a device's tensors over a transport that knows the host's memory only.

#include <memory>

#include "common/comm/device/staging.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm {

/// @brief `inner`, which may also be given bytes on devices: they pass through pinned memory.
///
/// Bytes on the host go on as they are. Cost: each message is copied from the device before it is sent
/// and to the device after it has arrived; what is to be combined is combined there.
/// @param staging  of the rank; shared by all its transports.
[[nodiscard]] std::unique_ptr<Transport> staged(std::shared_ptr<Transport> inner,
                                                std::shared_ptr<Staging> staging);

}  // namespace ultra::comm
