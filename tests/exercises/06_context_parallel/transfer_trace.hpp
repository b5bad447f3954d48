#pragma once
/// @file
/// What a rank sees of its transfers in a ring: when each began, and when the rank began to wait for it.

#include <ctime>
#include <map>
#include <mutex>

#include "common/comm/communicator.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/exercises/06_context_parallel/attention_on_ranks.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::context_parallel::test {

/// @brief Watches the messages that a rank sends while it lives, and its waits for them.
class TransferTrace : public CommObserver {
 public:
  explicit TransferTrace(const Communicator& ranks) : ranks_(ranks) { ranks_.set_observer(this); }
  TransferTrace(const TransferTrace&) = delete;
  TransferTrace& operator=(const TransferTrace&) = delete;
  ~TransferTrace() override { ranks_.set_observer(nullptr); }

  void operation_ended(const OperationInfo& info, std::size_t, Clock::time_point begin,
                       Clock::time_point end) override {
    if (info.kind != OpKind::kSend) return;
    const std::scoped_lock lock(mutex_);
    operations_[info.sequence] = {begin, end};
  }
  void waited(const OperationInfo& info, Clock::time_point begin, Clock::time_point end) override {
    if (info.kind != OpKind::kSend) return;
    const std::scoped_lock lock(mutex_);
    waits_[info.sequence] = {begin, end};
  }

  struct Transfer {
    double hidden;   // seconds from its begin to the wait, without waits for others: computing
    double exposed;  // seconds that the rank waited; 0 when it had ended before
  };
  /// @brief Those that have ended, in the order of their begin.
  [[nodiscard]] std::vector<Transfer> transfers() {
    const std::scoped_lock lock(mutex_);
    std::vector<Transfer> all;
    for (const auto& [number, operation] : operations_) {
      const auto wait = waits_.find(number);
      const Clock::time_point end = wait == waits_.end() ? operation.second : wait->second.first;
      all.push_back({.hidden = computed({operation.first, end}),
                     .exposed = wait == waits_.end() ? 0 : seconds(wait->second)});
    }
    return all;
  }

 private:
  using Span = std::pair<Clock::time_point, Clock::time_point>;

  static double seconds(const Span& span) {
    return std::chrono::duration<double>(span.second - span.first).count();
  }
  /// Seconds of a span that the rank did not wait.
  [[nodiscard]] double computed(const Span& span) const {
    double sum = seconds(span);
    for (const auto& [number, wait] : waits_) {
      const Span both{std::max(span.first, wait.first), std::min(span.second, wait.second)};
      if (both.first < both.second) sum -= seconds(both);
    }
    return sum;
  }

  Communicator ranks_;
  std::mutex mutex_;
  std::map<std::uint32_t, Span> operations_;
  std::map<std::uint32_t, Span> waits_;
};

/// @brief Options under which the keys and values of a rank take so long to the next one.
inline RankOptions slowed(const AttentionOfAll& all, double seconds) {
  RankOptions options = ultra::test::in_rank_order();
  const double bytes = 2.0 * static_cast<double>(all.own(0).key.nbytes());
  options.link = LinkSpeed{.latency = 0, .bytes_per_second = bytes / seconds};
  return options;
}

/// @brief Seconds of this thread's own work: the same however busy the machine is.
inline double work_seconds(const std::function<void()>& fn) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  fn();
  return now() - begin;
}

/// @brief Transfers that no block hid: between their begin and the wait for them the rank computed
/// less than a part of a step.
inline std::ptrdiff_t bare_transfers(TransferTrace& trace, double work_of_step) {
  return std::ranges::count_if(trace.transfers(), [&](const TransferTrace::Transfer& transfer) {
    return transfer.exposed > 0 && transfer.hidden < 0.2 * work_of_step;
  });
}

}  // namespace ultra::context_parallel::test
