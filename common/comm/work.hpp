#pragma once
/// @file
/// PendingCall: an operation that was called; Work: a handle on one under way.

#include <cstddef>
#include <memory>
#include <span>

namespace ultra::comm {
struct GroupState;
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

/// @brief An operation that was called and has its number, but is not yet issued: the caller says how.
///
/// `comm.all_reduce(x).wait();` waits at once: nobody else need move the operation along meanwhile.
/// `Work work = comm.all_reduce(x);` goes on in the background. Both take the call itself, not a
/// variable: after `auto call = comm.all_reduce(x);` neither compiles. A call that was never issued
/// leaves a gap in the numbers: the group's next operation throws ConfigError.
class [[nodiscard]] PendingCall {
 public:
  /// @brief Made by communicators.
  PendingCall(std::shared_ptr<comm::GroupState> group, std::shared_ptr<comm::Operation> operation);
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;
  ~PendingCall() = default;

  /// @brief Issues the operation and returns when it has ended. @throws what Work::wait throws.
  void wait() &&;
  /// @brief Issues the operation; it goes on while the rank computes.
  operator Work() &&;  // NOLINT(google-explicit-constructor): Work work = comm.all_reduce(x)

 private:
  [[nodiscard]] Work issue(bool background);

  std::shared_ptr<comm::GroupState> group_;
};

}  // namespace ultra
