#include "chapters/02_collectives/algorithms/segmented_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "chapters/02_collectives/ring_all_reduce.hpp"
#include "common/base/errors.hpp"

namespace ultra::collectives {
namespace {

/// One step of each ring in turn, then the next step of each: all rings have the same length.
comm::Lane take_turns(const std::vector<comm::Lane>& rings) {
  comm::Lane lane;
  for (std::size_t step = 0; step < rings.front().size(); ++step) {
    for (const comm::Lane& ring : rings) lane.push_back(ring[step]);
  }
  return lane;
}

}  // namespace

comm::Schedule segmented_ring_all_reduce(const comm::Group& group, Range range, int segments) {
  if (segments < 1) {
    throw ConfigError(
        fmt::format("a ring's chunks are cut into {} segments; it takes at least 1", segments));
  }
  // A segment of every chunk together is again a range with one chunk per member: a ring of its own.
  const comm::Chunks parts = comm::Chunks::even(range, segments);
  const int num_lanes = std::min(segments, 2);
  comm::Schedule schedule;
  for (int l = 0; l < num_lanes; ++l) {
    std::vector<comm::Lane> rings;
    for (int j = l; j < segments; j += num_lanes) {
      rings.push_back(ring_all_reduce(group, comm::Chunks::even(parts[j], group.size())));
    }
    schedule.lanes.push_back(take_turns(rings));
  }
  return schedule;
}

}  // namespace ultra::collectives
