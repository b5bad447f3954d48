#pragma once
/// @file
/// Work: a handle on an operation under way.

#include <cstddef>
#include <memory>
#include <span>

namespace ultra::comm {
class Operation;
class ProgressEngine;
}  // namespace ultra::comm

namespace ultra {

/// @brief A handle on a collective or a message under way.
///
/// The operation goes on by itself while the rank computes; until it has ended, its tensors must not
/// be written, nor read where it writes. The handle keeps those tensors alive. Of tensors on a device
/// with streams all of this is said of what the rank launches, not of its host: no host waits for a
/// device here, but wait() has the rank's stream wait for the operation. Dropping it does not
/// stop the operation: the rank waits for it at the end of run_ranks at the latest.
class [[nodiscard]] Work {
 public:
  /// @brief A handle on nothing, which has ended.
  Work() = default;
  /// @brief Made by communicators.
  Work(std::shared_ptr<comm::ProgressEngine> engine, std::shared_ptr<comm::Operation> operation)
      : engine_(std::move(engine)), operation_(std::move(operation)) {}

  /// @brief Returns when the operation has ended: what it received may be read from here on.
  /// @throws CommTimeout, CommMismatch, RankFailed or Deadlock instead of waiting for ever; the same
  /// again when it is waited for again, through any copy of the handle.
  void wait();

  /// @brief True when the operation has ended. Moves it along, never waits.
  /// @throws what wait() throws; Deadlock never, because a rank that asks can do something else.
  [[nodiscard]] bool done();

 private:
  friend std::size_t wait_any(std::span<Work> works);

  std::shared_ptr<comm::ProgressEngine> engine_;
  std::shared_ptr<comm::Operation> operation_;
};

}  // namespace ultra
