#include "chapters/04_zero/prefetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra::zero {

Prefetch::Prefetch(std::vector<UnitUse> uses, std::size_t ahead, Reshard reshard,
                   UnitActions actions)
    : uses_(std::move(uses)), ahead_(ahead), reshard_(reshard), actions_(std::move(actions)) {
  std::size_t units = 0;
  for (const UnitUse& use : uses_) units = std::max(units, use.unit + 1);
  asked_for_.assign(units, false);
  forwards_.assign(units, 0);
}

std::size_t Prefetch::next_use(std::size_t unit) {
  if (begun_ == uses_.size()) begun_ = 0;
  if (begun_ == uses_.size() || uses_[begun_].unit != unit) {
    throw InternalError(
        fmt::format("unit {} is used where the schedule has use {} of {}, of another unit", unit,
                    begun_, uses_.size()));
  }
  return begun_++;
}

void Prefetch::begin(std::size_t unit) {
  open_.push_back(next_use(unit));
  begin_use(open_.back());
}

void Prefetch::ask_for(std::size_t use) {
  const std::size_t unit = uses_[use].unit;
  if (asked_for_[unit]) return;
  asked_for_[unit] = true;
  actions_.start_gather(uses_[use]);
}

void Prefetch::end(std::size_t unit) {
  const auto open = std::ranges::find_if(open_, [&](auto use) { return uses_[use].unit == unit; });
  ensure(open != open_.end(), "a use that ends has begun");
  const std::size_t use = *open;
  open_.erase(open);
  if (stays(use)) return;
  asked_for_[unit] = false;
  actions_.release(unit);
}

}  // namespace ultra::zero
