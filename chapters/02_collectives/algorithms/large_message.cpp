#include "chapters/02_collectives/algorithms/large_message.hpp"

#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"
#include "chapters/02_collectives/trees/binomial_gather.hpp"

namespace ultra::collectives {

comm::Schedule scatter_all_gather_broadcast(const comm::Group& group, const comm::Chunks& chunks,
                                            int root) {
  comm::Schedule schedule = binomial_scatter(group, chunks, root);
  comm::append(schedule.lanes.front(), ring_all_gather(group, chunks));
  return schedule;
}

comm::Schedule reduce_scatter_gather_reduce(const comm::Group& group, const comm::Chunks& chunks,
                                            int root) {
  comm::Schedule schedule = binomial_gather(group, chunks, root);
  comm::Lane lane = ring_reduce_scatter(group, chunks);
  comm::append(lane, schedule.lanes.front());
  schedule.lanes.front() = lane;
  return schedule;
}

}  // namespace ultra::collectives
