#include "chapters/02_collectives/algorithms/pairwise_reduction.hpp"

#include <vector>

#include "chapters/02_collectives/ring_all_gather.hpp"
#include "chapters/02_collectives/steps.hpp"
#include "chapters/02_collectives/tree_sum.hpp"

namespace ultra::collectives {
namespace {

using comm::Block;
using comm::Buffer;

/// Room for contributions: one run of data that were sent already, and scratch memory. What is left
/// of a run that ends where the data end is forgotten.
class Room {
 public:
  /// The elements of a chunk are not needed any more.
  void add(Range sent) { free_ = sent.begin == free_.end ? Range{free_.begin, sent.end} : sent; }

  /// `count` elements that nobody else has.
  Block take(std::size_t count) {
    if (free_.size() >= count) {
      free_.begin += count;
      return {{free_.begin - count, free_.begin}};
    }
    scratch_count_ += count;
    return {{scratch_count_ - count, scratch_count_}, Buffer::kScratch};
  }

  [[nodiscard]] std::size_t scratch_count() const { return scratch_count_; }

 private:
  Range free_{};  // of the data
  std::size_t scratch_count_ = 0;
};

/// What to add in which order, so that contribution 0 becomes the sum of all.
std::vector<Join> additions(SumOrder order, std::size_t contributions) {
  if (order == SumOrder::kTree) return tree_joins(contributions);
  std::vector<Join> list;
  for (std::size_t i = 1; i < contributions; ++i) list.push_back({0, i});
  return list;
}

}  // namespace

// [region pairwise_reduce_scatter]
comm::Schedule pairwise_reduce_scatter(const comm::Group& group, const comm::Chunks& chunks,
                                       SumOrder order) {
  const int r = group.rank;
  const int size = group.size();
  const Block own{chunks[r]};
  Room room;
  comm::Lane lane;

  std::vector<Block> contributions(static_cast<std::size_t>(size), own);  // by position
  for (int s = 1; s < size; ++s) {
    Block& arriving = contributions[static_cast<std::size_t>((r + size - s) % size)];
    arriving = room.take(own.range.size());
    lane.push_back(exchange_step(group.at(r + s), {chunks[r + s]}, group.at(r - s), arriving));
    room.add(chunks[r + s]);
  }

  for (const auto& [into, from] : additions(order, contributions.size())) {
    lane.push_back(local_step(own_rank(group), contributions[from], contributions[into],
                              comm::OnReceive::kReduce));
  }
  const Block& sum = contributions.front();
  if (r > 0) lane.push_back(local_step(own_rank(group), sum, own));
  return {.lanes = {lane}, .scratch_count = room.scratch_count()};
}
// [/region]

comm::Schedule pairwise_all_reduce(const comm::Group& group, const comm::Chunks& chunks,
                                   SumOrder order) {
  comm::Schedule schedule = pairwise_reduce_scatter(group, chunks, order);
  comm::append(schedule.lanes.front(), ring_all_gather(group, chunks));
  return schedule;
}

}  // namespace ultra::collectives
