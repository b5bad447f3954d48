#include "chapters/06_context_parallel/ring_backward.hpp"

#include "chapters/06_context_parallel/kv_block.hpp"
#include "common/ops/elementwise.hpp"

namespace ultra::context_parallel {
namespace {

/// Sums that stay on this rank are kept in f32, of numbers of two bytes; those that travel are not.
Tensor zeros_like(const Tensor& x) {
  return Tensor::zeros(x.device(), x.shape(), accumulation_dtype(x.dtype()));
}

}  // namespace

// [region backward]
nn::QkvGradients ring_backward(const BlockAttention& queries, const Tensor& d_output,
                               const PartialAttention& whole, const KeyValues& own,
                               const SequenceGroup& ring) {
  const int ranks = ring.ranks.size();
  std::vector<int> steps = queries.steps_of(ring.chunks);
  const Tensor d_query = zeros_like(d_output);
  if (steps.size() == 1) {
    nn::QkvGradients gradients{d_query, zeros_like(own.key), zeros_like(own.value)};
    queries.add_gradients(d_output, whole, own, gradients);
    return gradients;
  }
  KvBlock here = KvBlock::copy_of(own);
  KvBlock d_arriving = KvBlock::like(own);
  Work d_shift;
  // Invariant: in step s, `here` has the keys and values of rank (rank - s), and `d_arriving` becomes
  // the sum of what the s ranks before this one have added to their gradients.
  steps.push_back(ranks);  // home
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const auto owner = static_cast<std::size_t>((ring.ranks.rank() - steps[i] + ranks) % ranks);
    const int hops = steps[i + 1] - steps[i];
    KvBlock next = here;
    Work shift;
    if (steps[i + 1] < ranks) {
      next = KvBlock::like(own);
      shift = ring.ranks.labeled("keys and values").ring_shift(here.both(), next.both(), hops);
    }
    KvBlock d_here = KvBlock::like(own);
    d_here.both().fill(0.0);
    queries.add_gradients(
        d_output, whole, here.at(ring.chunks[owner]),
        {.d_query = d_query, .d_key = d_here.first(), .d_value = d_here.second()});
    d_shift.wait();  // or the sum so far would be read before it has arrived
    if (i > 0) ops::add_into(d_here.both(), d_arriving.both());
    // The last hop brings the sums home.
    d_shift = ring.ranks.labeled("gradients of keys and values")
                  .ring_shift(d_here.both(), d_arriving.both(), hops);
    shift.wait();  // or the next block would read keys that have not arrived
    here = next;
  }
  d_shift.wait();
  return {d_query, d_arriving.first(), d_arriving.second()};
}
// [/region]

}  // namespace ultra::context_parallel
