#include "chapters/04_zero/prefetch.hpp"

namespace ultra::zero {

// [region begin_use]
void Prefetch::begin_use(std::size_t use) {
  ask_for(use);
  std::size_t ahead = 0;
  for (std::size_t next = use + 1; next < uses_.size() && ahead < ahead_; ++next) {
    if (uses_[next - 1].kind == UseKind::kRecomputation &&
        uses_[next - 1].unit == uses_[next].unit) {
      continue;  // computed again for this backward pass
    }
    ask_for(next);
    ++ahead;
  }
  actions_.wait(uses_[use].unit);
}
// [/region]

// [region stays]
bool Prefetch::stays(std::size_t use) {
  const UnitUse& over = uses_[use];
  if (over.kind == UseKind::kForward) ++forwards_[over.unit];
  if (over.kind == UseKind::kBackward) --forwards_[over.unit];
  if (over.kind == UseKind::kRecomputation) return true;
  const UnitUse its_backward{.unit = over.unit, .kind = UseKind::kBackward};
  if (use + 1 < uses_.size() && uses_[use + 1] == its_backward) return true;  // the turn
  return reshard_ == Reshard::kAfterBackward && forwards_[over.unit] > 0;
}
// [/region]

}  // namespace ultra::zero
