#pragma once
/// @file
/// Polling: what a rank waits for that wakes nobody when it comes.

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

namespace ultra::comm {

/// @brief How many things one rank waits for that wake nobody: copies from a device, for instance. Its
/// engine then looks again soon, and does not take the rank for blocked. May be used by several threads.
class Polling {
 public:
  /// What moments are measured with.
  using Clock = std::chrono::steady_clock;

  /// @brief When to look again; nothing when there is nothing to look for.
  [[nodiscard]] std::optional<Clock::time_point> next_look() const {
    if (awaited_ == 0) return std::nullopt;
    return Clock::now() + kPause;
  }

 private:
  friend class Polled;
  // How long after a look in vain the next one follows.
  static constexpr auto kPause = std::chrono::microseconds(50);

  std::atomic<int> awaited_ = 0;
};

/// @brief One thing that is waited for, until end() or the end of its life.
class Polled {
 public:
  /// @brief Waits from now on.
  explicit Polled(std::shared_ptr<Polling> polling) : polling_(std::move(polling)) {
    ++polling_->awaited_;
  }
  Polled(const Polled&) = delete;
  Polled& operator=(const Polled&) = delete;
  ~Polled() { end(); }

  /// @brief Does not wait any more.
  void end() {
    if (!ended_) --polling_->awaited_;
    ended_ = true;
  }

 private:
  std::shared_ptr<Polling> polling_;
  bool ended_ = false;
};

}  // namespace ultra::comm
