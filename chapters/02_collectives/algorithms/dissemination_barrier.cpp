#include "chapters/02_collectives/algorithms/dissemination_barrier.hpp"

#include "chapters/02_collectives/steps.hpp"

namespace ultra::collectives {

comm::Lane dissemination_barrier(const comm::Group& group) {
  comm::Lane lane;
  for (int distance = 1; distance < group.size(); distance *= 2) {
    lane.push_back(
        exchange_step(group.at(group.rank + distance), {}, group.at(group.rank - distance), {}));
  }
  return lane;
}

}  // namespace ultra::collectives
