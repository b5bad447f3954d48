#pragma once
/// @file
/// Issuer: for who writes an Operation that stands in for another, as SendQueue of chapter 03 does.

#include <memory>
#include <utility>

#include "common/comm/communicator.hpp"

namespace ultra::comm {

/// @brief Operations that are made and issued one after the other.
struct Issuer {
  /// @brief What Communicator::send makes for a named message.
  [[nodiscard]] static std::shared_ptr<Operation> make_send(const Communicator& group,
                                                            const Tensor& data, int peer,
                                                            const MessageName& name) {
    return group.named(OpKind::kSend, data, peer, name);
  }
  /// @brief Issues an operation for the calling rank, a member of the group.
  static Work issue(const Communicator& group, std::shared_ptr<Operation> operation) {
    return group.pending(std::move(operation));
  }
};

}  // namespace ultra::comm
