#pragma once
/// @file
/// A slowed link: any transport, made as slow as a network that this machine does not have.

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "common/base/errors.hpp"
#include "common/comm/engine/rank_monitor.hpp"
#include "common/comm/transport.hpp"

namespace ultra {

/// @brief What a message costs on a link: latency, then its bytes one after the other.
struct LinkSpeed {
  double latency = 0;           ///< seconds from the last byte's departure to its arrival (alpha)
  double bytes_per_second = 0;  ///< 1 / beta; must be set
  /// @brief Parses "latency-us=50,gbps=1" (10^9 bits per second) or "latency-us=50,gb-per-second=0.1".
  /// @throws ConfigError that lists the keys, for anything else.
  [[nodiscard]] static LinkSpeed parse(const std::string& text);
};

}  // namespace ultra

namespace ultra::comm {

/// @brief The outgoing link of one rank: messages leave it one after the other.
///
/// Shared by all transports of a rank, because they share the wire. May be used by several threads.
class SlowLink {
 public:
  /// What moments are measured with.
  using Clock = RankMonitor::Clock;

  /// @throws ConfigError when the latency is negative or the bandwidth is not above 0.
  explicit SlowLink(LinkSpeed speed);

  /// @brief Takes a message of `bytes`; returns when its last byte arrives.
  [[nodiscard]] Clock::time_point depart(std::size_t bytes);
  /// @brief The message that arrives then was delivered or withdrawn.
  void settled(Clock::time_point arrival);
  /// @brief A message waits for a device from now on before it departs, or does not any more.
  void holds_back(int change);
  /// @brief When the next message that has departed arrives, or when to look again whether a device
  /// has computed what waits for it; nothing when there is neither.
  [[nodiscard]] std::optional<Clock::time_point> next_arrival() const;

 private:
  LinkSpeed speed_;
  mutable std::mutex mutex_;
  Clock::time_point free_at_{};
  std::multiset<Clock::time_point> arrivals_;
  int held_back_ = 0;
};

/// @brief The refusal of the platform's own collectives where messages are slowed down.
[[nodiscard]] ConfigError native_on_slowed_link();

/// @brief `inner`, whose messages to other ranks take as long as `link` says.
///
/// A message is held back by its sender until its time has come; messages to oneself are not slowed.
[[nodiscard]] std::unique_ptr<Transport> slowed(std::shared_ptr<Transport> inner,
                                                std::shared_ptr<SlowLink> link);

}  // namespace ultra::comm
