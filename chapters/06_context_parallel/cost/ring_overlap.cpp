#include "chapters/06_context_parallel/cost/ring_overlap.hpp"

#include <algorithm>

namespace ultra::context_parallel {

double tokens_that_hide(double heads_per_kv, double element_bytes, double flops,
                        double bytes_per_second) {
  return element_bytes * flops / (heads_per_kv * bytes_per_second);
}

double transfer_over_compute(double tokens, double heads_per_kv, double element_bytes, double flops,
                             double bytes_per_second) {
  return tokens_that_hide(heads_per_kv, element_bytes, flops, bytes_per_second) / tokens;
}

RingTimes predict_ring(int ranks, const RingStepTimes& step) {
  const double n = ranks;
  RingTimes times{.compute = n * (step.forward + step.backward)};
  if (ranks == 1) return times;
  const double t = step.transfer;
  times.communication = (3 * n - 2) * t;
  const auto waits = [](double transfers, double compute) {
    return std::max(0.0, transfers - compute);
  };
  const double forward = (n - 1) * waits(t, step.forward);
  const double backward = 2 * waits(t, step.backward) + (n - 2) * waits(2 * t, step.backward) + t;
  times.exposed = forward + backward;
  return times;
}

}  // namespace ultra::context_parallel
