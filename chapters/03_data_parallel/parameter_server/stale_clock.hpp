#pragma once
/// @file
/// StaleClock: how far replicas may run ahead of each other.
///
/// Source: Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter
/// server", NeurIPS, section 2.

#include <cstddef>
#include <vector>

namespace ultra::data_parallel {

/// @brief Stale synchronous parallel: a replica that has completed c steps begins the next one when
/// every replica has completed c - staleness.
///
/// 0 makes all wait for all in every step; without a limit it is Downpour (Dean et al. 2012, "Large
/// scale distributed deep networks", NeurIPS). After the last step everybody waits for all, so that
/// everybody ends with the same weights.
class StaleClock {
 public:
  /// @param steps  of the whole run.
  StaleClock(int replicas, std::size_t staleness, std::size_t steps);

  /// @brief A replica has completed its next step.
  /// @return the replicas that may go on now and could not before, in their order.
  [[nodiscard]] std::vector<int> complete(int replica);

  /// @brief Steps that a replica has completed.
  [[nodiscard]] std::size_t completed(int replica) const;
  /// @brief Steps that all replicas have completed.
  [[nodiscard]] std::size_t slowest() const;

 private:
  [[nodiscard]] bool may_go_on(std::size_t completed) const;

  std::size_t staleness_;
  std::size_t steps_;
  std::vector<std::size_t> completed_;  // by replica
  std::vector<bool> waits_;             // by replica: it has completed a step and may not go on
};

}  // namespace ultra::data_parallel
