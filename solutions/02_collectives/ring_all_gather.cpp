#include "chapters/02_collectives/ring_all_gather.hpp"

namespace ultra::collectives {

// [region ring_all_gather]
comm::Lane ring_all_gather(const comm::Group& group, const comm::Chunks& chunks) {
  const int r = group.rank;
  const int next_rank = group.at(group.next());
  const int prev_rank = group.at(group.prev());
  comm::Lane lane;
  for (int s = 0; s < group.size() - 1; ++s) {
    lane.push_back({.send_to = next_rank,
                    .send = {chunks[r - s]},
                    .receive_from = prev_rank,
                    .receive = {chunks[r - 1 - s]},
                    .on_receive = comm::OnReceive::kStore});
  }
  return lane;
}
// [/region]

}  // namespace ultra::collectives
