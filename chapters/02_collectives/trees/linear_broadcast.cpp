#include "chapters/02_collectives/trees/linear_broadcast.hpp"

#include "chapters/02_collectives/steps.hpp"

namespace ultra::collectives {

comm::Lane linear_broadcast(const comm::Group& group, Range range, int root) {
  if (group.rank != root) return {receive_step(group.at(root), {range})};
  comm::Lane lane;
  for (int i = 1; i < group.size(); ++i) lane.push_back(send_step(group.at(root + i), {range}));
  return lane;
}

}  // namespace ultra::collectives
