#include "chapters/02_collectives/algorithms/fold.hpp"

#include <bit>

#include "chapters/02_collectives/steps.hpp"

namespace ultra::collectives {

Fold::Fold(const comm::Group& group, Range range)
    : group_(group),
      range_(range),
      core_size_(static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size())))) {}

comm::Group Fold::core() const {
  return {.ranks = {group_.ranks.begin(), group_.ranks.begin() + core_size_}, .rank = group_.rank};
}

comm::Lane Fold::in() const {
  if (!in_core()) return {send_step(group_.at(group_.rank - core_size_), {range_})};
  if (!has_partner()) return {};
  return {receive_step(group_.at(group_.rank + core_size_), {range_}, comm::OnReceive::kReduce)};
}

comm::Lane Fold::out() const {
  if (!in_core()) return {receive_step(group_.at(group_.rank - core_size_), {range_})};
  if (!has_partner()) return {};
  return {send_step(group_.at(group_.rank + core_size_), {range_})};
}

}  // namespace ultra::collectives
