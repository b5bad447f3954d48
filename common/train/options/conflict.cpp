#include "common/train/options/conflict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra::train {

Conflict not_recorded(std::string flag, std::string reason, bool given) {
  return {.first = std::move(flag),
          .second = std::string(kOnFlag),
          .reason = std::move(reason),
          .broken = given};
}

void reject_conflicts(std::span<const Conflict> conflicts) {
  const auto broken = std::ranges::find_if(conflicts, &Conflict::broken);
  if (broken == conflicts.end()) return;
  throw ConfigError(fmt::format("{} does not go together with {}: {}", broken->first,
                                broken->second, broken->reason));
}

}  // namespace ultra::train
