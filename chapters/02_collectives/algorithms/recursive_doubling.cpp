#include "chapters/02_collectives/algorithms/recursive_doubling.hpp"

#include "chapters/02_collectives/algorithms/fold.hpp"
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

comm::Schedule recursive_doubling_all_reduce(const comm::Group& group, Range range) {
  const Fold fold(group, range);
  comm::Lane lane = fold.in();
  if (fold.in_core()) comm::append(lane, butterfly(fold.core(), range));
  comm::append(lane, fold.out());
  return {.lanes = {lane}, .scratch_count = fold.in_core() ? range.size() : 0};
}

}  // namespace ultra::collectives
