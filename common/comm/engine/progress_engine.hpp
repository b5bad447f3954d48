#pragma once
/// @file
/// ProgressEngine: moves a rank's operations along while the rank computes.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/comm/engine/operation.hpp"
#include "common/comm/engine/rank_monitor.hpp"
#include "common/comm/traffic.hpp"

namespace ultra {

/// @brief Who moves operations along between their start and Work::wait.
enum class Progress {
  kThread,  ///< a thread of the rank's own, which sleeps while nothing can move
  kOnCall,  ///< nobody but wait(), done() and Communicator::progress()
};

/// @brief Told what a rank's communication does: for timelines. Called with the engine's lock held,
/// by the rank's thread or its progress thread: must be quick and must not communicate.
class CommObserver {
 public:
  /// What moments are measured with.
  using Clock = std::chrono::steady_clock;

  virtual ~CommObserver() = default;
  /// @brief An operation ran from `begin` to `end`.
  virtual void operation_ended(const OperationInfo& info, std::size_t sent_bytes,
                               Clock::time_point begin, Clock::time_point end) = 0;
  /// @brief The rank's own thread waited for an operation from `begin` to `end`.
  virtual void waited(const OperationInfo& info, Clock::time_point begin,
                      Clock::time_point end) = 0;
};

}  // namespace ultra

namespace ultra::comm {

/// @brief How a rank's engine works.
struct EngineOptions {
  std::chrono::duration<double> timeout{60};  ///< of each wait
  Progress progress = Progress::kThread;      ///< who moves operations along
  /// When something that this rank has delayed itself falls due (a slowed link); may be empty.
  std::function<std::optional<RankMonitor::Clock::time_point>()> next_alarm;
};

/// @brief Owns the operations under way on one rank.
///
/// A wait moves all of them along itself; only operations issued without waiting need the thread.
/// What goes on by itself on a device's streams (Operation::device_part) needs no wait of the host: it
/// counts as ended for waits as soon as it is in the streams, and for figures when the device has done
/// it, which the thread finds out.
/// Deviation: NCCL runs a communicator's operations strictly one after the other on the device. So
/// do we (Order::kInTurn), but messages and other communicators go on beside them.
class ProgressEngine {
 public:
  /// What moments are measured with.
  using Clock = RankMonitor::Clock;

  /// @brief An engine without operations.
  ProgressEngine(std::shared_ptr<RankMonitor> monitor, EngineOptions options);
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;
  /// Withdraws what is still under way.
  ~ProgressEngine();

  /// @brief Takes an operation over; with Progress::kThread, the thread begins it.
  /// @param background  true when its caller goes on computing.
  void submit(std::shared_ptr<Operation> operation, bool background);

  /// @brief Returns when the operation has ended.
  /// @throws what the operation threw, again at each wait; CommTimeout, RankFailed, Deadlock.
  /// CommError when the rank has ended.
  void wait(const std::shared_ptr<Operation>& operation);

  /// @brief An operation that has ended.
  struct Ended {
    std::size_t index;         ///< which
    std::exception_ptr error;  ///< what it threw; null when it ended well
  };
  /// @brief Returns when one of the operations has ended: the first to do so.
  /// @param operations  null ones are passed over; one at least is not null.
  /// @throws what wait() throws, except for the operation's own error.
  [[nodiscard]] Ended wait_any(std::span<const Operation* const> operations);

  /// @brief Moves everything along once; true when the operation has ended.
  /// @throws what wait() throws, except for Deadlock: a rank that polls can do something else. Its time
  /// begins with the first of its polls without a pause, and again when a message goes the same way.
  [[nodiscard]] bool poll(const std::shared_ptr<Operation>& operation);

  /// @brief Moves everything along once.
  void poll();

  /// @brief Waits for all operations that were issued and not waited for.
  void finish();

  /// @brief Withdraws everything under way and takes nothing more: the rank has failed.
  void abandon();

  /// @brief What this rank sent and how long it waited, up to now.
  [[nodiscard]] CommStats stats() const;

  /// @brief Tells `observer` of everything from now on; nullptr stops that.
  void set_observer(CommObserver* observer);

  /// @brief The view of the other ranks.
  [[nodiscard]] RankMonitor& monitor() { return *monitor_; }

 private:
  struct Entry {
    std::shared_ptr<Operation> operation;
    bool background;
    std::optional<Clock::time_point> begin;  // of its first step: earlier operations go first
    bool on_device = false;                  // what is left of it goes on by itself
  };
  struct Turn {
    std::shared_ptr<Operation> operation;  // null when it is nobody's turn
    bool on_device = false;
    std::optional<Clock::time_point> begin;
  };
  class Waiting;

  [[nodiscard]] Turn next_in_pass(std::size_t& index, const std::vector<std::uint64_t>& taken);
  void advance_all();
  [[nodiscard]] bool advance(const Turn& turn);
  [[nodiscard]] bool leave_to_device(std::size_t index);
  void expect_device_goes_on(const Turn& turn);
  void start_or_wake_thread();
  void retire(const Entry& entry, std::exception_ptr error);
  [[nodiscard]] std::optional<Ended> take_ended(std::span<const Operation* const> operations);
  [[nodiscard]] std::string describe(const Operation& operation) const;
  [[nodiscard]] std::string describe(std::span<const Operation* const> operations) const;
  void expect_hope(const std::string& doing, Clock::time_point begin);
  void look_around(const std::string& doing, std::uint64_t seen, Clock::time_point begin);
  void look_while_polling(Operation& operation);
  void run_thread();
  [[nodiscard]] bool thread_has_work() const;
  [[nodiscard]] Clock::time_point next_look(Clock::duration at_most) const;

  std::shared_ptr<RankMonitor> monitor_;
  EngineOptions options_;
  CommObserver* observer_ = nullptr;

  // Held by whoever moves operations along, which may take long: one thread at a time does. Before
  // mutex_, which guards the rest and is never held for long, so that submit() returns at once.
  mutable std::mutex pass_mutex_;
  mutable std::mutex mutex_;
  std::condition_variable wake_thread_;
  std::vector<Entry> active_;
  std::vector<std::shared_ptr<const Operation>> failed_;  // those that nobody has waited for
  std::uint64_t ended_ = 0;                               // how many have, well or not
  CommStats stats_;
  Clock::time_point busy_since_;
  Clock::time_point last_retired_;
  std::atomic<int> on_device_ = 0;  // operations that go on by themselves
  Clock::time_point last_device_look_;
  int waiters_ = 0;
  bool abandoned_ = false;
  bool stop_ = false;
  bool has_thread_ = false;
  std::thread thread_;

  Clock::time_point last_look_;  // of the rank's own thread, while it polls

  // Of the rank's own thread: what the ranks did early in a long wait.
  struct FirstLook {
    Clock::time_point moment;
    std::vector<RankActivity> activities;
  };
  std::chrono::duration<double> first_look_after_;
  FirstLook first_look_;
};

}  // namespace ultra::comm
