// Exercise 02.7: the cost of the ring.
//
// All three collectives are trips around the ring, so the trip is priced once. The largest chunk
// is rounded up, not S / N: the ring is as slow as its longest message.
#include "chapters/02_collectives/ring_cost.hpp"

#include "common/base/numeric.hpp"

namespace ultra::collectives {
namespace {

/// Every chunk moves on N - 1 times, and at each stop a byte takes `seconds_per_byte`.
RingCost one_trip(int ranks, std::size_t count, std::size_t element_bytes, double alpha,
                  double seconds_per_byte) {
  const auto n = checked_cast<std::size_t>(ranks);
  const std::size_t messages = n - 1;
  const std::size_t chunk_bytes = ceil_div(count, n) * element_bytes;
  const auto steps = static_cast<double>(messages);
  const double all_bytes = static_cast<double>(count) * static_cast<double>(element_bytes);
  return {.messages = messages,
          .chunk_bytes = chunk_bytes,
          .sent_bytes = steps * all_bytes / static_cast<double>(n),
          .seconds = steps * (alpha + static_cast<double>(chunk_bytes) * seconds_per_byte)};
}

}  // namespace

RingCost ring_reduce_scatter_cost(int ranks, std::size_t count, std::size_t element_bytes,
                                  const LinkCost& link) {
  return one_trip(ranks, count, element_bytes, link.alpha, link.beta + link.gamma);
}

RingCost ring_all_gather_cost(int ranks, std::size_t count, std::size_t element_bytes,
                              const LinkCost& link) {
  return one_trip(ranks, count, element_bytes, link.alpha, link.beta);
}

RingCost ring_all_reduce_cost(int ranks, std::size_t count, std::size_t element_bytes,
                              const LinkCost& link) {
  const RingCost scatter = ring_reduce_scatter_cost(ranks, count, element_bytes, link);
  const RingCost gather = ring_all_gather_cost(ranks, count, element_bytes, link);
  return {.messages = scatter.messages + gather.messages,
          .chunk_bytes = scatter.chunk_bytes,
          .sent_bytes = scatter.sent_bytes + gather.sent_bytes,
          .seconds = scatter.seconds + gather.seconds};
}

}  // namespace ultra::collectives
