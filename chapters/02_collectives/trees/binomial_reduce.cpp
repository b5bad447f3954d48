#include "chapters/02_collectives/trees/binomial_reduce.hpp"

#include "chapters/02_collectives/binomial_broadcast.hpp"
#include "chapters/02_collectives/steps.hpp"

namespace ultra::collectives {

comm::Lane binomial_reduce(const comm::Group& group, Range range, int root) {
  const int size = group.size();
  const int v = (group.rank - root + size) % size;  // counted from the root
  comm::Lane lane;
  // The smallest subtrees first: they are complete first.
  for (int bit = 1; bit < size; bit *= 2) {
    if ((v & bit) != 0) {
      lane.push_back(send_step(group.at(root + v - bit), {range}));
      break;
    }
    if (v + bit < size) {
      lane.push_back(receive_step(group.at(root + v + bit), {range}, comm::OnReceive::kReduce));
    }
  }
  return lane;
}

comm::Lane binomial_all_reduce(const comm::Group& group, Range range) {
  comm::Lane lane = binomial_reduce(group, range, 0);
  comm::append(lane, binomial_broadcast(group, range, 0));
  return lane;
}

}  // namespace ultra::collectives
