// A warp for each row, which it reads three times: for the largest logit, for the sum of the
// exponentials, for the gradient. Then a warp adds the rows' losses.

#include "kernels/generic/functions.cuh"
#include "kernels/generic/numbers.cuh"
#include "kernels/generic/rows/rows.hpp"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

constexpr std::int32_t kNoTarget = -1;

template <typename T>
__device__ __forceinline__ void clear_row(const CrossEntropy& of, std::size_t row) {
  for (std::size_t i = threadIdx.x % 32; i < of.vocab; i += 32) {
    store(of.logits, row * of.vocab + i, T(0));
  }
}

template <typename T>
__global__ void cross_entropy_kernel(CrossEntropy of, T per_token) {
  const std::size_t row = row_of_warp();
  if (row >= of.rows) {
    return;
  }
  const std::int32_t target = ldg(&of.targets[row]);
  const std::size_t lane = threadIdx.x % 32;
  const std::size_t begin = row * of.vocab;
  if (target == kNoTarget) {
    clear_row<T>(of, row);
    if (lane == 0) {
      stg(&of.scratch[row], 0.0);
    }
    return;
  }
  T own = minus_infinity<T>();
  for (std::size_t i = lane; i < of.vocab; i += 32) {
    const T logit = load<T>(of.logits, begin + i);
    own = own < logit ? logit : own;
  }
  const T highest = warp_max(own);
  T part = 0;
  for (std::size_t i = lane; i < of.vocab; i += 32) {
    part += exponential(load<T>(of.logits, begin + i) - highest);
  }
  const T sum = warp_sum(part);
  const auto wanted = static_cast<std::size_t>(target);
  if (lane == 0) {
    const double logit = wanted < of.vocab ? static_cast<double>(load<T>(of.logits, begin + wanted))
                                           : static_cast<double>(__builtin_nanf(""));
    stg(&of.scratch[row],
        logarithm(static_cast<double>(sum)) + static_cast<double>(highest) - logit);
  }
  __syncwarp();  // else lanes replace the target's logit before lane 0 has read it
  const T factor = per_token / sum;
  for (std::size_t i = lane; i < of.vocab; i += 32) {
    const T share = exponential(load<T>(of.logits, begin + i) - highest) * factor;
    store(of.logits, begin + i, i == wanted ? share - per_token : share);
  }
}

}  // namespace

template <>
void cross_entropy<kExecutor>(const CrossEntropy& of, const Queue& queue) {
  const double per_token = 1.0 / of.normalizer;
  if (sums_in_f64(of.logits.number)) {
    launch_rows(cross_entropy_kernel<double>, "cross_entropy", of.rows, queue, of, per_token);
  } else {
    launch_rows(cross_entropy_kernel<float>, "cross_entropy", of.rows, queue, of,
                static_cast<float>(per_token));
  }
  sum_of<kExecutor>(of.loss, of.scratch, of.rows, per_token, of.write, queue);
}

}  // namespace ultra::kernels::generic
