#include "chapters/03_data_parallel/parameter_server/send_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <optional>

#include "common/base/errors.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::comm {

/// Operations that are made and issued one after the other.
struct Issuer {
  /// What Communicator::send makes for a named message.
  [[nodiscard]] static std::shared_ptr<Operation> make_send(const Communicator& group,
                                                            const Tensor& data, int peer,
                                                            const MessageName& name) {
    return group.named(OpKind::kSend, data, peer, name);
  }
  /// Issues an operation for the calling rank, a member of the group.
  static Work issue(const Communicator& group, std::shared_ptr<Operation> operation) {
    return group.pending(std::move(operation));
  }
};

}  // namespace ultra::comm

namespace ultra::data_parallel {
namespace {

using comm::Operation;

/// A send in a queue. All members are called inside the engine's pass, but for the destructor.
class QueuedSend final : public Operation, public SendQueue::Send {
 public:
  QueuedSend(std::shared_ptr<Operation> send, std::shared_ptr<SendQueue> queue)
      : Operation(send->info(), send->order()), send_(std::move(send)), queue_(std::move(queue)) {}
  QueuedSend(const QueuedSend&) = delete;
  QueuedSend& operator=(const QueuedSend&) = delete;
  // Begins nothing: it may be one of many that their rank withdraws.
  ~QueuedSend() override { queue_->leave(*this); }

  void begin() noexcept override {
    begin_time_ = std::chrono::steady_clock::now();
    step();
  }

  bool advance() override {
    if (!begin_time_) queue_->begin_due();
    if (!begin_time_) return false;
    if (!ended_) step();
    if (!ended_) return false;
    // The next one begins here, in the same pass: the link must not idle until somebody looks again.
    queue_->leave(*this);
    queue_->begin_due();
    if (error_) std::rethrow_exception(error_);
    return true;
  }

  std::string waits_for() const override {
    return begin_time_ ? send_->waits_for() : queue_->waits_for(*this);
  }
  std::string text() const override {
    return fmt::format("{}: {}", to_string(info()), send_->waits_for());
  }
  std::size_t sent_bytes() const override { return send_->sent_bytes(); }
  const comm::DevicePart* device_part() const override { return send_->device_part(); }
  void abort() override { send_->abort(); }
  std::optional<std::chrono::steady_clock::time_point> begin_time() const override {
    return begin_time_;
  }

 private:
  void step() noexcept {
    try {
      ended_ = send_->advance();
    } catch (...) {
      error_ = std::current_exception();
      ended_ = true;
    }
  }

  std::shared_ptr<Operation> send_;
  std::shared_ptr<SendQueue> queue_;
  std::optional<std::chrono::steady_clock::time_point> begin_time_;
  bool ended_ = false;
  std::exception_ptr error_;
};

}  // namespace

SendQueue::SendQueue(int window) : window_(window) {
  if (window >= 1) return;
  throw ConfigError(fmt::format("a send queue lets at least 1 send go at a time, not {}", window));
}

void SendQueue::enter(Send& send, int priority) {
  const std::scoped_lock lock(mutex_);
  const std::thread::id caller = std::this_thread::get_id();
  if (owner_ == std::thread::id()) owner_ = caller;
  if (owner_ != caller) {
    throw ConfigError("a send queue is used by two ranks; make one for each, inside run_ranks");
  }
  waiting_.emplace(Turn{priority, entered_++}, &send);
}

void SendQueue::begin_due() {
  const std::scoped_lock lock(mutex_);
  while (!waiting_.empty() && on_their_way_.size() < static_cast<std::size_t>(window_)) {
    Send& next = *waiting_.extract(waiting_.begin()).mapped();
    on_their_way_.push_back(&next);
    next.begin();
  }
}

void SendQueue::leave(const Send& send) {
  const std::scoped_lock lock(mutex_);
  if (std::erase(on_their_way_, &send) > 0) return;
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second == &send; });
}

std::string SendQueue::waits_for(const Send& send) const {
  const std::scoped_lock lock(mutex_);
  const auto own =
      std::ranges::find_if(waiting_, [&](const auto& entry) { return entry.second == &send; });
  const auto ahead = std::distance(waiting_.begin(), own);
  std::string text = "it waits for its turn";
  if (ahead > 0) {
    text += fmt::format(" behind {} more urgent message{}", ahead, ahead == 1 ? "" : "s");
  }
  const char* separator = "; on their way: ";
  for (const Send* other : on_their_way_) {
    text += separator + other->text();
    separator = "; ";
  }
  return text;
}

std::shared_ptr<Operation> in_turn(std::shared_ptr<Operation> send, const Turn& turn) {
  if (!turn.queue) return send;
  auto queued = std::make_shared<QueuedSend>(std::move(send), turn.queue);
  turn.queue->enter(*queued, turn.priority);
  return queued;
}

Work send_in_turn(const Communicator& group, const Tensor& data, int peer, const MessageName& name,
                  const Turn& turn) {
  return comm::Issuer::issue(group,
                             in_turn(comm::Issuer::make_send(group, data, peer, name), turn));
}

}  // namespace ultra::data_parallel
