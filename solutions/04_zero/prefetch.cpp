#include "chapters/04_zero/prefetch.hpp"

#include <algorithm>

namespace ultra::zero {

// [region unit_of]
std::size_t Prefetch::unit_of(std::size_t use) const {
  return use < units_ ? use : 2 * units_ - 1 - use;
}
// [/region]

// [region begin_use]
void Prefetch::begin_use(std::size_t use) {
  const std::size_t last = std::min(use + ahead_, 2 * units_ - 1);
  for (std::size_t next = use; next <= last; ++next) {
    const std::size_t unit = unit_of(next);
    if (asked_for_[unit]) continue;
    asked_for_[unit] = true;
    actions_.start_gather(unit);
  }
  actions_.wait(unit_of(use));
}
// [/region]

// [region passes]
void Prefetch::before_forward(std::size_t unit) {
  if (!backward_) return begin_use(unit);
  begin_use(2 * units_ - 1 - unit);  // it is computed again, for its backward pass
}

void Prefetch::after_forward(std::size_t unit) {
  if (!backward_ && reshard_ == Reshard::kAfterForward) release(unit);
}

void Prefetch::before_backward(std::size_t unit) {
  backward_ = true;
  begin_use(2 * units_ - 1 - unit);
}

void Prefetch::after_backward(std::size_t unit) {
  release(unit);
  if (unit == 0) backward_ = false;  // the next micro-batch begins
}
// [/region]

// [region release]
void Prefetch::release(std::size_t unit) {
  asked_for_[unit] = false;
  actions_.release(unit);
}
// [/region]

}  // namespace ultra::zero
