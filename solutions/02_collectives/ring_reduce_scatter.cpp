#include "chapters/02_collectives/ring_reduce_scatter.hpp"

namespace ultra::collectives {

// [region ring_reduce_scatter]
comm::Lane ring_reduce_scatter(const comm::Group& group, const comm::Chunks& chunks) {
  const int r = group.rank;
  const int next_rank = group.at(group.next());
  const int prev_rank = group.at(group.prev());
  comm::Lane lane;
  for (int s = 0; s < group.size() - 1; ++s) {
    lane.push_back({.send_to = next_rank,
                    .send = {chunks[r - 1 - s]},
                    .receive_from = prev_rank,
                    .receive = {chunks[r - 2 - s]},
                    .on_receive = comm::OnReceive::kReduce});
  }
  return lane;
}
// [/region]

}  // namespace ultra::collectives
