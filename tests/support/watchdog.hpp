#pragma once
/// @file
/// Watchdog: ends the program when a test that must not hang does.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ultra::test {

/// @brief While it lives, the program has `limit`, as on an idle machine (patience.hpp); then it is
/// ended with a message.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace ultra::test
