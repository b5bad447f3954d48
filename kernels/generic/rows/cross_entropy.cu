// A warp for each row, which it reads twice: for the largest logit and the sum of the exponentials, and for
// the gradient; four elements a lane where four can be read at a time. Then a warp adds the rows' losses.

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

// The largest of some logits, and the sum of their exponentials when each is divided by the largest one's.
template <typename T>
struct Exponentials {
  T highest = minus_infinity<T>();
  T sum = 0;

  template <int count>
  __device__ __forceinline__ void add(const T (&logits)[count]) {
    T own = highest;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      own = own < logits[i] ? logits[i] : own;
    }
    if (highest < own) {
      sum *= exponential(highest - own);
      highest = own;
    }
    const T shift = highest == minus_infinity<T>() ? T(0) : highest;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      sum += exponential(logits[i] - shift);
    }
  }
};

template <typename T, int width>
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
  Exponentials<T> own;
  T logits[width];
  for (std::size_t i = lane * width; i < of.vocab; i += 32 * width) {
    load(of.logits, begin + i, logits);
    own.add(logits);
  }
  const T highest = warp_max(own.highest);
  const T sum = warp_sum(own.sum * exponential(own.highest - highest));
  const auto wanted = static_cast<std::size_t>(target);
  if (lane == 0) {
    const double logit = wanted < of.vocab ? static_cast<double>(load<T>(of.logits, begin + wanted))
                                           : static_cast<double>(__builtin_nanf(""));
    stg(&of.scratch[row],
        logarithm(static_cast<double>(sum)) + static_cast<double>(highest) - logit);
  }
  __syncwarp();  // else lanes replace the target's logit before lane 0 has read it
  const T factor = per_token / sum;
  for (std::size_t i = lane * width; i < of.vocab; i += 32 * width) {
    load(of.logits, begin + i, logits);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      logits[k] = exponential(logits[k] - highest) * factor;
      logits[k] = i + k == wanted ? logits[k] - per_token : logits[k];
    }
    store(of.logits, begin + i, logits);
  }
}

}  // namespace

template <>
void cross_entropy<kExecutor>(const CrossEntropy& of, const Queue& queue) {
  const double per_token = 1.0 / of.normalizer;
  if (sums_in_f64(of.logits.number)) {
    launch_rows(cross_entropy_kernel<double, 1>, "cross_entropy", of.rows, queue, of, per_token);
  } else {
    const bool several = of.vocab % kSeveral == 0 && come_in_several({of.logits});
    launch_rows(several ? cross_entropy_kernel<float, kSeveral> : cross_entropy_kernel<float, 1>,
                "cross_entropy", of.rows, queue, of, static_cast<float>(per_token));
  }
  sum_of<kExecutor>(of.loss, of.scratch, of.rows, per_token, of.write, queue);
}

}  // namespace ultra::kernels::generic
