#include "chapters/05_tensor_sequence_parallel/ring_matmul.hpp"

#include "common/ops/elementwise.hpp"

namespace ultra::tensor_parallel {

// [region gather_in_ring]
void gather_in_ring(const Tensor& own, const Communicator& tp, const UseChunk& use) {
  const int ranks = tp.size();
  Tensor here = own;
  // Invariant: after s steps, `here` is the chunk of rank (rank - s).
  for (int step = 0; step < ranks; ++step) {
    Tensor next;
    Work shift;
    if (step + 1 < ranks) {
      next = Tensor::empty(own.device(), own.shape(), own.dtype());
      shift = tp.labeled("chunk").ring_shift(here, next);
    }
    use((tp.rank() - step + ranks) % ranks, here);
    shift.wait();
    here = next;
  }
}
// [/region]

// [region reduce_scatter_in_ring]
Tensor reduce_scatter_in_ring(const Communicator& tp, const MakeChunk& make) {
  const int ranks = tp.size();
  // Invariant: after step s, `sum` has s + 1 ranks' parts of the chunk of rank (rank - 1 - s).
  Tensor sum = make(tp.prev_rank());
  for (int step = 1; step < ranks; ++step) {
    const Tensor received = Tensor::empty(sum.device(), sum.shape(), sum.dtype());
    Work shift = tp.labeled("partial sum").ring_shift(sum, received);
    const Tensor part = make((tp.rank() - 1 - step + ranks) % ranks);
    shift.wait();
    ops::add_into(part, received);
    sum = part;
  }
  return sum;
}
// [/region]

}  // namespace ultra::tensor_parallel
