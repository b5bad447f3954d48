#include "common/comm/engine/progress_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "common/comm/comm_error.hpp"
#include "common/comm/engine/short_turns.hpp"

namespace ultra::comm {
namespace {

using Clock = ProgressEngine::Clock;

constexpr auto kLongestSleep = std::chrono::milliseconds(10);
// A wait that has lasted this long looks for failures; before, it only looks for messages.
constexpr auto kSuspicion = std::chrono::milliseconds(20);
// A wait that has lasted this long, or the larger part of this to its end, may well end in a
// time-out: what the ranks do is noted, which takes long for a short wait.
constexpr std::chrono::duration<double> kLongWait{1};
constexpr double kLongPart = 0.25;
// How long the thread sleeps between two looks at what goes on by itself on a device.
constexpr auto kDeviceLook = std::chrono::microseconds(100);
// Messages about a wait for one of many name so many.
constexpr std::size_t kNamed = 4;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

bool is_message(const OperationInfo& info) {
  return info.kind == OpKind::kSend || info.kind == OpKind::kRecv;
}

/// Messages of one way between two ranks: who takes one of them is not stuck.
bool go_the_same_way(const OperationInfo& a, const OperationInfo& b) {
  return is_message(a) && a.kind == b.kind && a.communicator_id == b.communicator_id &&
         a.root == b.root;
}

/// The error with the operation's name in front, where the transport could not know it.
std::exception_ptr with_operation(const OperationInfo& info, std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const CommMismatch& mismatch) {
    return std::make_exception_ptr(
        CommMismatch(fmt::format("{}: {}", to_string(info), mismatch.what())));
  } catch (...) {
    return error;
  }
}

}  // namespace

/// While it lives, the rank's own thread waits: the progress thread stands back, the time counts.
class ProgressEngine::Waiting {
 public:
  Waiting(ProgressEngine& engine, const Operation* operation)
      : waits_for(operation), engine_(engine), begin_(Clock::now()) {
    const std::scoped_lock lock(engine_.mutex_);
    ++engine_.waiters_;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    if (reported) engine_.monitor_->report_moving();
    const std::scoped_lock lock(engine_.mutex_);
    // What the rank waited for has ended by then: waiting is a part of the busy time.
    const auto end =
        engine_.active_.empty() ? std::max(begin_, engine_.last_retired_) : Clock::now();
    --engine_.waiters_;
    engine_.stats_.exposed_seconds += seconds_between(begin_, end);
    if (engine_.observer_ != nullptr) engine_.observer_->waited(waits_for->info(), begin_, end);
    if (engine_.thread_has_work()) engine_.wake_thread_.notify_one();
  }

  [[nodiscard]] Clock::time_point begin() const { return begin_; }

  bool reported = false;       ///< the monitor was told that this rank is blocked
  const Operation* waits_for;  ///< of several: the one that has ended, when one has

 private:
  ProgressEngine& engine_;
  Clock::time_point begin_;
};

ProgressEngine::ProgressEngine(std::shared_ptr<RankMonitor> monitor, EngineOptions options)
    : monitor_(std::move(monitor)),
      options_(std::move(options)),
      first_look_after_(std::min(kLongWait, kLongPart * options_.timeout)) {}

ProgressEngine::~ProgressEngine() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    wake_thread_.notify_one();
  }
  monitor_->wake();
  if (thread_.joinable()) thread_.join();
  abandon();
}

void ProgressEngine::submit(std::shared_ptr<Operation> operation, bool background) {
  {
    const std::scoped_lock lock(mutex_);
    if (abandoned_) {
      throw CommError(
          fmt::format("{} begins after its rank has ended", to_string(operation->info())));
    }
    if (active_.empty()) busy_since_ = Clock::now();
    active_.push_back({.operation = std::move(operation), .background = background, .begin = {}});
    if (background) start_or_wake_thread();
  }
  if (!background) return;
  if (options_.progress == Progress::kOnCall) return advance_all();
  monitor_->wake();
}

/// The next operation, from `index` on, that may move; null when there is none.
/// @param taken  communicators whose turn it is for an earlier operation.
ProgressEngine::Turn ProgressEngine::next_in_pass(std::size_t& index,
                                                  const std::vector<std::uint64_t>& taken) {
  const std::scoped_lock lock(mutex_);
  for (; index < active_.size(); ++index) {
    Entry& entry = active_[index];
    const std::uint64_t communicator = entry.operation->info().communicator_id;
    if (!entry.on_device && entry.operation->order() == Operation::Order::kInTurn &&
        std::ranges::find(taken, communicator) != taken.end()) {
      continue;
    }
    // On a device, it begins when what it needs has been computed.
    const DevicePart* const part = entry.operation->device_part();
    if (!entry.begin && (part == nullptr || part->has_begun())) entry.begin = Clock::now();
    return {.operation = entry.operation, .on_device = entry.on_device, .begin = entry.begin};
  }
  return {};
}

/// Moves one operation along; true when it has ended, or goes on by itself on a device from here on.
bool ProgressEngine::advance(const Turn& turn) {
  if (!turn.on_device) return turn.operation->advance();
  if (turn.operation->device_part()->has_ended()) return true;
  expect_device_goes_on(turn);
  return false;
}

/// Throws when what is on a device will not end: the operation is over then.
void ProgressEngine::expect_device_goes_on(const Turn& turn) {
  const auto now = Clock::now();
  if (now - last_device_look_ < kSuspicion) return;
  last_device_look_ = now;
  const std::string doing =
      fmt::format("{}: {}", to_string(turn.operation->info()), turn.operation->waits_for());
  try {
    monitor_->check(doing);
    turn.operation->check_device();
    if (turn.begin && now - *turn.begin > options_.timeout) {
      throw CommTimeout(fmt::format("rank {} has waited {:g} s for a device in {}.",
                                    monitor_->world_rank(), options_.timeout.count(), doing));
    }
  } catch (...) {
    turn.operation->abort();
    throw;
  }
}

/// Whether an operation that has taken its last step on the host goes on by itself on a device. From
/// then on the rank may go on too: its streams know the order.
bool ProgressEngine::leave_to_device(std::size_t index) {
  Entry& entry = active_[index];
  const DevicePart* const part = entry.operation->device_part();
  if (entry.on_device || part == nullptr || part->has_ended()) return false;
  entry.operation->ended_as_ = ++ended_;
  entry.on_device = true;
  ++on_device_;
  start_or_wake_thread();  // the rank need not wait for it again
  return true;
}

void ProgressEngine::start_or_wake_thread() {
  if (options_.progress == Progress::kOnCall) return;
  if (!has_thread_) {
    has_thread_ = true;
    thread_ = std::thread([this] { run_thread(); });
  }
  wake_thread_.notify_one();
}

void ProgressEngine::advance_all() {
  const std::scoped_lock pass(pass_mutex_);
  std::vector<std::uint64_t> taken;
  std::size_t i = 0;
  while (true) {
    const Turn turn = next_in_pass(i, taken);
    if (!turn.operation) return;
    const OperationInfo& info = turn.operation->info();
    std::exception_ptr error;
    bool ended = true;
    try {
      ended = advance(turn);
    } catch (...) {
      error = with_operation(info, std::current_exception());
    }
    if (!ended) {
      if (!turn.on_device && turn.operation->order() == Operation::Order::kInTurn) {
        taken.push_back(info.communicator_id);
      }
      ++i;
      continue;
    }
    // The list may have grown meanwhile, at its end; only a pass takes from it.
    const std::scoped_lock lock(mutex_);
    if (!error && leave_to_device(i)) {
      ++i;
      continue;
    }
    const Entry done = std::move(active_[i]);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    retire(done, error);
  }
}

void ProgressEngine::retire(const Entry& entry, std::exception_ptr error) {
  const auto end = Clock::now();
  last_retired_ = end;
  if (entry.on_device) --on_device_;
  if (entry.operation->ended_as_ == 0) entry.operation->ended_as_ = ++ended_;
  if (active_.empty()) stats_.busy_seconds += seconds_between(busy_since_, end);
  if (error) {
    entry.operation->error_ = error;
    failed_.push_back(entry.operation);
    return;
  }
  const OperationInfo& info = entry.operation->info();
  for (const Entry& other : active_) {
    if (go_the_same_way(other.operation->info(), info)) other.operation->polled_since_ = end;
  }
  const std::size_t sent = entry.operation->sent_bytes();
  stats_[info.kind].operations += 1;
  stats_[info.kind].sent_bytes += sent;
  const auto begin = entry.operation->begin_time().value_or(entry.begin.value_or(end));
  if (observer_ != nullptr) observer_->operation_ended(info, sent, begin, end);
}

/// The operation that ended first; nothing while all are under way.
std::optional<ProgressEngine::Ended> ProgressEngine::take_ended(
    std::span<const Operation* const> operations) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (operations[i] == nullptr || operations[i]->ended_as_ == 0) continue;
    if (!first || operations[i]->ended_as_ < operations[*first]->ended_as_) first = i;
  }
  if (first && operations[*first]->error_) {
    std::erase_if(failed_, [&](const auto& failed) { return failed.get() == operations[*first]; });
    return Ended{.index = *first, .error = operations[*first]->error_};
  }
  if (abandoned_) {
    const Operation* const any = *std::ranges::find_if(operations, std::identity());
    throw CommError(fmt::format("{} belongs to a rank that has ended", to_string(any->info())));
  }
  if (!first) return std::nullopt;
  return Ended{.index = *first, .error = nullptr};
}

void ProgressEngine::wait(const std::shared_ptr<Operation>& operation) {
  const Operation* const one = operation.get();
  const Ended ended = wait_any(std::span(&one, 1));
  if (ended.error) std::rethrow_exception(ended.error);
}

ProgressEngine::Ended ProgressEngine::wait_any(std::span<const Operation* const> operations) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto ended = take_ended(operations)) return *ended;
  }
  Waiting waiting(*this, *std::ranges::find_if(operations, std::identity()));
  for (int spins = 0;; ++spins) {
    const std::uint64_t seen = monitor_->events();
    advance_all();
    {
      const std::scoped_lock lock(mutex_);
      if (const auto ended = take_ended(operations)) {
        waiting.waits_for = operations[ended->index];
        return *ended;
      }
    }
    if (spins < monitor_->spins()) {
      std::this_thread::yield();
      continue;
    }
    if (Clock::now() - waiting.begin() > kSuspicion) {
      waiting.reported = true;
      look_around(describe(operations), seen, waiting.begin());
    }
    monitor_->sleep(seen, next_look(kLongestSleep));
  }
}

/// What it is and whom it waits for: "all_reduce #3 of 'dp' (...): rank 2 has not arrived".
std::string ProgressEngine::describe(const Operation& operation) const {
  const std::scoped_lock lock(pass_mutex_, mutex_);
  const OperationInfo& info = operation.info();
  const auto first = std::ranges::find_if(active_, [&](const Entry& entry) {
    return !entry.on_device && entry.operation->order() == Operation::Order::kInTurn &&
           entry.operation->info().communicator_id == info.communicator_id;
  });
  const bool in_turn = operation.order() == Operation::Order::kInTurn && first != active_.end();
  if (!in_turn || first->operation.get() == &operation) {
    return fmt::format("{}: {}", to_string(info), operation.waits_for());
  }
  return fmt::format("{}, which comes after {}: {}", to_string(info),
                     to_string(first->operation->info()), first->operation->waits_for());
}

/// The operation; or "wait_any of 12 operations: ..." and what the first of them wait for.
std::string ProgressEngine::describe(std::span<const Operation* const> operations) const {
  std::vector<const Operation*> some;
  std::ranges::copy_if(operations, std::back_inserter(some), std::identity());
  if (some.size() == 1) return describe(*some.front());
  std::string text = fmt::format("wait_any of {} operations: ", some.size());
  for (std::size_t i = 0; i < std::min(kNamed, some.size()); ++i) {
    text += (i == 0 ? "" : "; ") + describe(*some[i]);
  }
  if (some.size() > kNamed) text += fmt::format("; and {} others", some.size() - kNamed);
  return text;
}

/// Throws when the operation will not end.
void ProgressEngine::expect_hope(const std::string& doing, Clock::time_point begin) {
  monitor_->check(doing);
  const auto now = Clock::now();
  if (now - begin > options_.timeout) {
    const bool looked = first_look_.moment > begin;
    throw CommTimeout(fmt::format(
        "rank {} has waited {:g} s in {}.{}", monitor_->world_rank(), options_.timeout.count(),
        doing,
        tell_activities(monitor_->world_rank(),
                        looked ? first_look_.activities : std::vector<RankActivity>(),
                        monitor_->activities(), seconds_between(first_look_.moment, now))));
  }
  if (first_look_.moment <= begin && now - begin > first_look_after_) {
    first_look_ = {.moment = now, .activities = monitor_->activities()};
  }
}

void ProgressEngine::look_around(const std::string& doing, std::uint64_t seen,
                                 Clock::time_point begin) {
  {
    // What failed here, and nobody has waited for yet, the others wait for: this wait may have no end.
    const std::scoped_lock lock(mutex_);
    if (!failed_.empty()) std::rethrow_exception(failed_.front()->error_);
  }
  expect_hope(doing, begin);
  const bool moves_by_itself = options_.next_alarm && options_.next_alarm();
  if (!moves_by_itself) monitor_->report_blocked(seen, doing);
}

bool ProgressEngine::poll(const std::shared_ptr<Operation>& operation) {
  advance_all();
  {
    const std::scoped_lock lock(mutex_);
    const Operation* const one = operation.get();
    if (const auto ended = take_ended(std::span(&one, 1))) {
      if (ended->error) std::rethrow_exception(ended->error);
      return true;
    }
  }
  look_while_polling(*operation);
  return false;
}

void ProgressEngine::look_while_polling(Operation& operation) {
  const auto now = Clock::now();
  Clock::time_point since;
  {
    const std::scoped_lock lock(mutex_);
    if (now - operation.last_poll_ > kSuspicion) operation.polled_since_ = now;  // it has computed
    operation.last_poll_ = now;
    since = operation.polled_since_;
  }
  // Of several that are polled in turn, each has its own time.
  const bool too_long = now - since > options_.timeout;
  if (!too_long && now - last_look_ < kSuspicion) return;
  last_look_ = now;
  expect_hope(describe(operation), since);
}

void ProgressEngine::poll() { advance_all(); }

void ProgressEngine::finish() {
  while (true) {
    std::shared_ptr<Operation> next;
    const std::uint64_t seen = monitor_->events();
    {
      const std::scoped_lock lock(mutex_);
      if (!failed_.empty()) std::rethrow_exception(failed_.front()->error_);
      if (active_.empty()) return;
      const auto host = std::ranges::find(active_, false, &Entry::on_device);
      if (host != active_.end()) next = host->operation;
    }
    if (next) {
      wait(next);
      continue;
    }
    advance_all();
    if (on_device_ > 0) monitor_->sleep(seen, next_look(kLongestSleep));
  }
}

void ProgressEngine::abandon() {
  const std::scoped_lock lock(pass_mutex_, mutex_);
  abandoned_ = true;
  for (const Entry& entry : active_) entry.operation->abort();
  active_.clear();
  on_device_ = 0;
}

CommStats ProgressEngine::stats() const {
  const std::scoped_lock lock(mutex_);
  CommStats stats = stats_;
  if (!active_.empty()) stats.busy_seconds += seconds_between(busy_since_, Clock::now());
  return stats;
}

void ProgressEngine::set_observer(CommObserver* observer) {
  const std::scoped_lock lock(mutex_);
  observer_ = observer;
}

bool ProgressEngine::thread_has_work() const {
  return waiters_ == 0 && std::ranges::any_of(active_, [](const Entry& entry) {
           return entry.background || entry.on_device;
         });
}

Clock::time_point ProgressEngine::next_look(Clock::duration at_most) const {
  if (on_device_ > 0) at_most = std::min<Clock::duration>(at_most, kDeviceLook);
  Clock::time_point next = Clock::now() + at_most;
  if (options_.next_alarm) {
    if (const auto alarm = options_.next_alarm()) next = std::min(next, *alarm);
  }
  return next;
}

void ProgressEngine::run_thread() {
  ask_for_short_turns();
  std::unique_lock lock(mutex_);
  while (true) {
    wake_thread_.wait(lock, [this] { return stop_ || thread_has_work(); });
    if (stop_) return;
    lock.unlock();
    const std::uint64_t seen = monitor_->events();
    advance_all();
    lock.lock();
    if (!thread_has_work()) continue;
    lock.unlock();
    monitor_->sleep(seen, next_look(kLongestSleep));
    lock.lock();
  }
}

}  // namespace ultra::comm
