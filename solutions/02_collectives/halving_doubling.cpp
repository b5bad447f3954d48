#include "chapters/02_collectives/halving_doubling.hpp"

#include <fmt/format.h>

#include <bit>

#include "common/base/errors.hpp"

namespace ultra::collectives {
namespace {

void require_power_of_two(const comm::Group& group) {
  if (!std::has_single_bit(static_cast<unsigned>(group.size()))) {
    throw ConfigError(
        fmt::format("recursive halving and doubling pair up the members until all have met: the "
                    "group size must be a power of two, found {}. Use 'rabenseifner' for an "
                    "all-reduce of any size, 'ring' for the others.",
                    group.size()));
  }
}

}  // namespace

// [region recursive_halving]
comm::Lane recursive_halving_reduce_scatter(const comm::Group& group, const comm::Chunks& chunks) {
  require_power_of_two(group);
  comm::Lane lane;
  int first = 0;  // the window of chunks that this position still works on: [first, first + 2 half)
  for (int half = group.size() / 2; half >= 1; half /= 2) {
    const bool keeps_upper = (group.rank & half) != 0;
    const int middle = first + half;
    const Range lower = chunks.span(first, middle);
    const Range upper = chunks.span(middle, middle + half);
    const int partner = group.at(group.rank ^ half);
    lane.push_back({.send_to = partner,
                    .send = {keeps_upper ? lower : upper},
                    .receive_from = partner,
                    .receive = {keeps_upper ? upper : lower},
                    .on_receive = comm::OnReceive::kReduce});
    if (keeps_upper) first = middle;
  }
  return lane;
}
// [/region]

// [region recursive_doubling]
comm::Lane recursive_doubling_all_gather(const comm::Group& group, const comm::Chunks& chunks) {
  require_power_of_two(group);
  comm::Lane lane;
  for (int width = 1; width < group.size(); width *= 2) {
    const int mine = group.rank / width * width;  // first chunk of the window that this one holds
    const int theirs = mine ^ width;
    const int partner = group.at(group.rank ^ width);
    lane.push_back({.send_to = partner,
                    .send = {chunks.span(mine, mine + width)},
                    .receive_from = partner,
                    .receive = {chunks.span(theirs, theirs + width)},
                    .on_receive = comm::OnReceive::kStore});
  }
  return lane;
}
// [/region]

comm::Lane halving_doubling_all_reduce(const comm::Group& group, const comm::Chunks& chunks) {
  comm::Lane lane = recursive_halving_reduce_scatter(group, chunks);
  comm::append(lane, recursive_doubling_all_gather(group, chunks));
  return lane;
}

}  // namespace ultra::collectives
