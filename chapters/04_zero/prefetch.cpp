#include "chapters/04_zero/prefetch.hpp"

#include <utility>

namespace ultra::zero {

Prefetch::Prefetch(std::size_t units, std::size_t ahead, Reshard reshard, UnitActions actions)
    : units_(units),
      ahead_(ahead),
      reshard_(reshard),
      actions_(std::move(actions)),
      asked_for_(units, false) {}

}  // namespace ultra::zero
