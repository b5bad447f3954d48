#include "chapters/02_collectives/ring_all_reduce.hpp"

#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"

namespace ultra::collectives {

// [region ring_all_reduce]
comm::Lane ring_all_reduce(const comm::Group& group, const comm::Chunks& chunks) {
  comm::Lane lane = ring_reduce_scatter(group, chunks);
  comm::append(lane, ring_all_gather(group, chunks));
  return lane;
}
// [/region]

}  // namespace ultra::collectives
