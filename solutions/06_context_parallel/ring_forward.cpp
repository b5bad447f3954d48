#include "chapters/06_context_parallel/ring_forward.hpp"

#include "chapters/06_context_parallel/kv_block.hpp"

namespace ultra::context_parallel {

// [region forward]
PartialAttention ring_forward(const BlockAttention& queries, const KeyValues& own,
                              const SequenceGroup& ring) {
  const int ranks = ring.ranks.size();
  std::vector<int> steps = queries.steps_of(ring.chunks);
  PartialAttention partial = queries.empty_partial();
  if (steps.size() == 1) {
    queries.attend(partial, own);
    return partial;
  }
  KvBlock here = KvBlock::copy_of(own);
  // Invariant: in step s, `here` has the keys and values of rank (rank - s).
  steps.push_back(ranks);
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const auto owner = static_cast<std::size_t>((ring.ranks.rank() - steps[i] + ranks) % ranks);
    const int hops = steps[i + 1] - steps[i];
    KvBlock next = here;
    Work shift;
    if (steps[i + 1] < ranks) {
      next = KvBlock::like(own);
      shift = ring.ranks.labeled("keys and values").ring_shift(here.both(), next.both(), hops);
    }
    queries.attend(partial, here.at(ring.chunks[owner]));
    shift.wait();  // or the next block would read keys that have not arrived
    here = next;
  }
  return partial;
}
// [/region]

}  // namespace ultra::context_parallel
