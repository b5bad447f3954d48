#pragma once
/// @file
/// Work: a handle on an operation under way.

#include <memory>

namespace ultra::comm {
class Operation;
class ProgressEngine;
}  // namespace ultra::comm

namespace ultra {

/// @brief A handle on a collective or a message under way.
///
/// The operation goes on by itself while the rank computes; until it has ended, its tensors must not
/// be written, nor read where it writes. The handle keeps those tensors alive. Dropping it does not
/// stop the operation: the rank waits for it at the end of run_ranks at the latest.
class [[nodiscard]] Work {
 public:
  /// @brief A handle on nothing, which has ended.
  Work() = default;
  /// @brief Made by communicators.
  Work(std::shared_ptr<comm::ProgressEngine> engine, std::shared_ptr<comm::Operation> operation)
      : engine_(std::move(engine)), operation_(std::move(operation)) {}

  /// @brief Returns when the operation has ended: what it received may be read from here on.
  /// @throws CommTimeout, CommMismatch, RankFailed or Deadlock instead of waiting for ever.
  void wait();

  /// @brief True when the operation has ended. Moves it along, never waits.
  /// @throws what wait() throws; Deadlock never, because a rank that asks can do something else.
  [[nodiscard]] bool done();

 private:
  std::shared_ptr<comm::ProgressEngine> engine_;
  std::shared_ptr<comm::Operation> operation_;
};

}  // namespace ultra
