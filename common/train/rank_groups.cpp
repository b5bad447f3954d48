#include "common/train/rank_groups.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/errors.hpp"

namespace ultra::train {

void RankGroups::add(std::string name, Communicator ranks) {
  for (const auto& [known, group] : groups_) {
    if (known == name) throw InternalError(fmt::format("two groups are called '{}'", name));
  }
  groups_.emplace_back(std::move(name), std::move(ranks));
}

const Communicator& RankGroups::at(std::string_view name) const {
  std::string names;
  for (const auto& [known, group] : groups_) {
    if (known == name) return group;
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", known);
  }
  throw InternalError(fmt::format("there is no group '{}' of ranks, but {}", name, names));
}

}  // namespace ultra::train
