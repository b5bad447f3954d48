#include "chapters/02_collectives/algorithms/all_to_all.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chapters/02_collectives/steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::collectives {
namespace {

using comm::Block;
using comm::Buffer;

Block input(Range range) { return {range, Buffer::kInput}; }

/// The scratch memory of Bruck's algorithm: one slot per distance, and one message out and one in.
struct BruckMemory {
  std::size_t chunk;  ///< elements
  int size;           ///< slots

  [[nodiscard]] Block slots(int first, int count) const { return blocks(first, count); }
  [[nodiscard]] Block outgoing(int first, int count) const { return blocks(size + first, count); }
  [[nodiscard]] Block incoming(int first, int count) const {
    return blocks(size + (size + 1) / 2 + first, count);
  }
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(size + 2 * ((size + 1) / 2)) * chunk;
  }

 private:
  [[nodiscard]] Block blocks(int first, int count) const {
    const auto begin = static_cast<std::size_t>(first) * chunk;
    return {{begin, begin + static_cast<std::size_t>(count) * chunk}, Buffer::kScratch};
  }
};

/// Calls visit(first slot, number of slots, how many came before) for the runs of slots whose index
/// has the bit; returns the number of such slots.
template <class Visit>
int for_runs_with_bit(int size, int bit, const Visit& visit) {
  int before = 0;
  for (int first = bit; first < size; first += 2 * bit) {
    const int count = std::min(bit, size - first);
    visit(first, count, before);
    before += count;
  }
  return before;
}

}  // namespace

comm::Lane pairwise_all_to_all(const comm::Group& group, const comm::Chunks& sent,
                               const comm::Chunks& received) {
  const int r = group.rank;
  comm::Lane lane = {local_step(own_rank(group), input(sent[r]), {received[r]})};
  for (int s = 1; s < group.size(); ++s) {
    lane.push_back(
        exchange_step(group.at(r + s), input(sent[r + s]), group.at(r - s), {received[r - s]}));
  }
  return lane;
}

comm::Schedule bruck_all_to_all(const comm::Group& group, const comm::Chunks& sent,
                                const comm::Chunks& received) {
  if (const std::string reason = why_not_bruck(sent, received); !reason.empty()) {
    throw ConfigError(reason);
  }
  const int r = group.rank;
  const int size = group.size();
  const int self = own_rank(group);
  const BruckMemory memory{.chunk = sent[0].size(), .size = size};

  // Slot i: what goes to the position i further. The chunks from r on, then those before r.
  comm::Lane lane = {local_step(self, input(sent.span(r, size)), memory.slots(0, size - r))};
  if (r > 0) lane.push_back(local_step(self, input(sent.span(0, r)), memory.slots(size - r, r)));

  for (int bit = 1; bit < size; bit *= 2) {
    const int slots = for_runs_with_bit(size, bit, [&](int first, int count, int before) {
      lane.push_back(local_step(self, memory.slots(first, count), memory.outgoing(before, count)));
    });
    lane.push_back(exchange_step(group.at(r + bit), memory.outgoing(0, slots), group.at(r - bit),
                                 memory.incoming(0, slots)));
    for_runs_with_bit(size, bit, [&](int first, int count, int before) {
      lane.push_back(local_step(self, memory.incoming(before, count), memory.slots(first, count)));
    });
  }

  for (int i = 0; i < size; ++i) {
    lane.push_back(local_step(self, memory.slots(i, 1), {received[r - i]}));
  }
  return {.lanes = {lane}, .scratch_count = memory.count()};
}

std::string why_not_bruck(const comm::Chunks& sent, const comm::Chunks& received) {
  for (const comm::Chunks* chunks : {&sent, &received}) {
    for (int i = 0; i < chunks->size(); ++i) {
      if ((*chunks)[i].size() != sent[0].size()) {
        return fmt::format(
            "Bruck's all-to-all needs equal counts: {} elements {} rank {}, {} to rank 0. Use "
            "'pairwise'.",
            (*chunks)[i].size(), chunks == &sent ? "to" : "from", i, sent[0].size());
      }
    }
  }
  return {};
}

}  // namespace ultra::collectives
