#pragma once
/// @file
/// Operations that are messages, and the agreement behind Communicator::split.

#include <cstddef>
#include <memory>
#include <vector>

#include "common/comm/engine/operation.hpp"
#include "common/comm/engine/roll_call.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm {

/// @brief A message to or from `info.root`, as an operation.
/// @param tag  its use is Tag::Use::kPointToPoint or kNamed.
[[nodiscard]] std::shared_ptr<Operation> make_message(OperationInfo info, Tensor data,
                                                      std::shared_ptr<Transport> transport,
                                                      Tag tag);

/// @brief Ends when both have ended: a shift sends and receives at once.
[[nodiscard]] std::shared_ptr<Operation> make_shift(OperationInfo info,
                                                    std::shared_ptr<Operation> send,
                                                    std::shared_ptr<Operation> receive);

/// @brief The members' colors and keys, on their way.
class SplitOperation : public Operation {
 public:
  /// @brief An agreement that has not begun.
  SplitOperation(OperationInfo info, std::shared_ptr<Transport> control, int color, int key);
  bool advance() override { return roll_.complete(); }
  std::string waits_for() const override { return roll_.waits_for(); }
  std::size_t sent_bytes() const override { return 0; }
  /// @brief The members that share this rank's color, in the order of key, then rank.
  [[nodiscard]] std::vector<int> members() const;

 private:
  int color_;
  RollCall roll_;
};

}  // namespace ultra::comm
