#include "chapters/02_collectives/algorithms/butterflies.hpp"

#include <bit>

#include "chapters/02_collectives/halving_doubling.hpp"
#include "chapters/02_collectives/steps.hpp"

namespace ultra::collectives {
namespace {

comm::Lane butterfly(const comm::Group& group, Range range) {
  const comm::Block data{range};
  const comm::Block arrived{{0, range.size()}, comm::Buffer::kScratch};
  comm::Lane lane;
  for (int distance = 1; distance < group.size(); distance *= 2) {
    const int partner = group.at(group.rank ^ distance);
    lane.push_back(exchange_step(partner, data, partner, arrived));
    lane.push_back(local_step(own_rank(group), arrived, data, comm::OnReceive::kReduce));
  }
  return lane;
}

}  // namespace

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

comm::Schedule recursive_doubling_all_reduce(const comm::Group& group, Range range) {
  const Fold fold(group, range);
  comm::Lane lane = fold.in();
  if (fold.in_core()) comm::append(lane, butterfly(fold.core(), range));
  comm::append(lane, fold.out());
  return {.lanes = {lane}, .scratch_count = fold.in_core() ? range.size() : 0};
}

comm::Lane rabenseifner_all_reduce(const comm::Group& group, Range range) {
  const Fold fold(group, range);
  comm::Lane lane = fold.in();
  if (fold.in_core()) {
    const comm::Group core = fold.core();
    comm::append(lane, halving_doubling_all_reduce(core, comm::Chunks::even(range, core.size())));
  }
  comm::append(lane, fold.out());
  return lane;
}

comm::Lane dissemination_barrier(const comm::Group& group) {
  comm::Lane lane;
  for (int distance = 1; distance < group.size(); distance *= 2) {
    lane.push_back(
        exchange_step(group.at(group.rank + distance), {}, group.at(group.rank - distance), {}));
  }
  return lane;
}

}  // namespace ultra::collectives
