#include "chapters/02_collectives/algorithms/rings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/ring_all_reduce.hpp"
#include "chapters/02_collectives/ring_reduce_scatter.hpp"
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

void require_grid(const comm::Group& group, std::span<const int> extents) {
  const auto product =
      std::accumulate(extents.begin(), extents.end(), 1LL, std::multiplies<long long>());
  if (std::any_of(extents.begin(), extents.end(), [](int e) { return e < 1; }) ||
      product != group.size()) {
    throw ConfigError(fmt::format("a grid of {} has {} places, one for each of {} ranks is needed",
                                  fmt::join(extents, " x "), product, group.size()));
  }
}

/// Members `first`, `first + stride`, ...; `place` is this rank's among them.
comm::Group every(const comm::Group& group, int first, int stride, int count, int place) {
  comm::Group line{.ranks = {}, .rank = place};
  for (int i = 0; i < count; ++i) line.ranks.push_back(group.at(first + i * stride));
  return line;
}

comm::Group row_of(const comm::Group& group, int columns) {
  const int column = group.rank % columns;
  return every(group, group.rank - column, 1, columns, column);
}

/// The members with the same place in their row; of more than two dimensions, a grid again.
comm::Group column_of(const comm::Group& group, int columns) {
  return every(group, group.rank % columns, columns, group.size() / columns, group.rank / columns);
}

comm::Lane ring(const comm::Group& group, Range range) {
  return ring_all_reduce(group, comm::Chunks::even(range, group.size()));
}

comm::Lane reduce_along(const comm::Group& group, Range range, std::span<const int> extents) {
  if (extents.size() < 2) return ring(group, range);
  const comm::Group row = row_of(group, extents.back());
  const comm::Chunks chunks = comm::Chunks::even(range, row.size());
  comm::Lane lane = ring_reduce_scatter(row, chunks);
  comm::append(lane, reduce_along(column_of(group, row.size()), chunks[row.rank],
                                  extents.first(extents.size() - 1)));
  comm::append(lane, ring_all_gather(row, chunks));
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

comm::Lane torus_all_reduce(const comm::Group& group, Range range, std::span<const int> extents) {
  require_grid(group, extents);
  return reduce_along(group, range, extents);
}

comm::Lane mesh_all_reduce(const comm::Group& group, Range range, int rows, int columns) {
  require_grid(group, std::vector<int>{rows, columns});
  comm::Lane lane = ring(row_of(group, columns), range);
  comm::append(lane, ring(column_of(group, columns), range));
  return lane;
}

}  // namespace ultra::collectives
