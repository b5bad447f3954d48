#pragma once
/// @file
/// A platform's own collective of a device's tensors, by way of the host.

#include <memory>

#include "common/comm/device/staging.hpp"
#include "common/comm/engine/operation.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm {

/// @brief The collective that `inner` does natively with copies of the tensors on the host.
///
/// Ends when the result is on its way back to the device. Memory: pinned copies of input and output.
[[nodiscard]] std::shared_ptr<Operation> make_staged(const CollectiveCall& call, Transport& inner,
                                                     std::shared_ptr<Staging> staging,
                                                     Checking checking);

}  // namespace ultra::comm
