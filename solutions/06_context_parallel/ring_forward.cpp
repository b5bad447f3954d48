#include "chapters/06_context_parallel/ring_forward.hpp"

#include "chapters/06_context_parallel/kv_block.hpp"

namespace ultra::context_parallel {

// [region forward]
PartialAttention ring_forward(const BlockAttention& queries, const KeyValues& own,
                              const SequenceGroup& ring) {
  const int ranks = ring.ranks.size();
  PartialAttention partial = queries.empty_partial();
  if (ranks == 1) {
    queries.attend(partial, own);
    return partial;
  }
  KvBlock here = KvBlock::copy_of(own);
  // Invariant: in step s, `here` has the keys and values of rank (rank - s).
  for (int step = 0; step < ranks; ++step) {
    const auto owner = static_cast<std::size_t>((ring.ranks.rank() - step + ranks) % ranks);
    KvBlock next = here;
    Work shift;
    if (step + 1 < ranks) {
      next = KvBlock::like(own);
      shift = ring.ranks.labeled("keys and values").ring_shift(here.both(), next.both());
    }
    queries.attend(partial, here.at(ring.chunks[owner]));
    shift.wait();  // or the next block would read keys that have not arrived
    here = next;
  }
  return partial;
}
// [/region]

}  // namespace ultra::context_parallel
