#include "chapters/03_data_parallel/parameter_server/stale_clock.hpp"

#include <algorithm>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::data_parallel {

StaleClock::StaleClock(int replicas, std::size_t staleness, std::size_t steps)
    : staleness_(staleness),
      steps_(steps),
      completed_(checked_cast<std::size_t>(replicas), 0),
      waits_(completed_.size(), false) {
  ensure(!completed_.empty(), "a clock of one replica at least");
}

bool StaleClock::may_go_on(std::size_t completed) const {
  const std::size_t slowest = this->slowest();
  return completed < steps_ ? completed - slowest <= staleness_ : slowest == steps_;
}

std::vector<int> StaleClock::complete(int replica) {
  const auto own = checked_cast<std::size_t>(replica);
  ensure(!waits_.at(own) && completed_[own] < steps_, "a replica that was let go makes its step");
  ++completed_[own];
  waits_[own] = true;
  std::vector<int> released;
  for (std::size_t other = 0; other < waits_.size(); ++other) {
    if (!waits_[other] || !may_go_on(completed_[other])) continue;
    waits_[other] = false;
    released.push_back(checked_cast<int>(other));
  }
  return released;
}

std::size_t StaleClock::completed(int replica) const {
  return completed_.at(checked_cast<std::size_t>(replica));
}

std::size_t StaleClock::slowest() const { return *std::ranges::min_element(completed_); }

}  // namespace ultra::data_parallel
