#include "common/train/options/exclusion.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/errors.hpp"

namespace ultra::train {

void expect_kept(std::span<const Exclusion> exclusions) {
  const auto broken = std::ranges::find_if(exclusions, &Exclusion::broken);
  if (broken == exclusions.end()) return;
  throw ConfigError(fmt::format("{} does not go together with {}: {}", broken->first,
                                broken->second, broken->reason));
}

}  // namespace ultra::train
