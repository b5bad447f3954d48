#include "chapters/02_collectives/binomial_broadcast.hpp"

#include "chapters/02_collectives/steps.hpp"

namespace ultra::collectives {

// [region binomial_broadcast]
comm::Lane binomial_broadcast(const comm::Group& group, Range range, int root) {
  const int size = group.size();
  const int v = (group.rank - root + size) % size;  // counted from the root
  comm::Lane lane;
  int bit = 1;
  while (bit < size && (v & bit) == 0) bit *= 2;
  if (v != 0) {
    // `bit` is now v's lowest set bit: its parent is the position without it.
    lane.push_back(receive_step(group.at(root + v - bit), {range}));
  }
  // The largest subtree first: it needs the most rounds after this one.
  for (bit /= 2; bit >= 1; bit /= 2) {
    if (v + bit < size) lane.push_back(send_step(group.at(root + v + bit), {range}));
  }
  return lane;
}
// [/region]

}  // namespace ultra::collectives
