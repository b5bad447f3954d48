#pragma once
/// @file
/// Operations that are messages.

#include <memory>

#include "common/comm/engine/operation.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm {

/// @brief What of a message happens on a device: nothing, where its tensor is on the host.
[[nodiscard]] DevicePart device_part_of(const Tensor& data, const OperationInfo& info);

/// @brief A message to or from `info.root`, as an operation.
/// @param tag  its use is Tag::Use::kPointToPoint or kNamed.
[[nodiscard]] std::shared_ptr<Operation> make_message(OperationInfo info, Tensor data,
                                                      std::shared_ptr<Transport> transport,
                                                      Tag tag);

/// @brief Ends when both have ended: a shift sends and receives at once.
[[nodiscard]] std::shared_ptr<Operation> make_shift(OperationInfo info,
                                                    std::shared_ptr<Operation> send,
                                                    std::shared_ptr<Operation> receive);

}  // namespace ultra::comm
