// Threads add what is theirs, as many elements apart as there are threads; then one warp adds what
// they have got.

#include "kernels/generic/elements/sums.hpp"

#include "kernels/generic/numbers.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

template <typename T>
__global__ void squares_kernel(double* partials, std::size_t threads, Source x, std::size_t count) {
  const std::size_t thread = global_thread();
  if (thread >= threads) {
    return;
  }
  double sum = 0;
  for (std::size_t index = thread; index < count; index += threads) {
    const double value = load<T>(x, index);
    sum += value * value;
  }
  stg(&partials[thread], sum);
}

// One warp.
__global__ void sum_kernel(double* sum, const double* terms, std::size_t count, double factor,
                           Write write) {
  double own = 0;
  for (std::size_t index = threadIdx.x; index < count; index += 32) {
    own += ldg(&terms[index]);
  }
  const double all = warp_sum(own) * factor;
  if (threadIdx.x == 0) {
    const double before = write == Write::kAdd ? ldg(sum) : 0.0;
    stg(sum, before + all);
  }
}

}  // namespace

template <>
void sum_of<kExecutor>(double* sum, const double* terms, std::size_t count, double factor,
                       Write write, const Queue& queue) {
  launch(sum_kernel, {.name = "sum", .grid = {}, .block = {.x = 32}, .queue = queue}, sum, terms,
         count, factor, write);
}

template <>
void sum_of_squares<kExecutor>(double* sum, const Source& x, std::size_t count, double* partials,
                               Write write, const Queue& queue) {
  const std::size_t threads = partial_sums(count);
  launch_each(sums_in_f64(x.number) ? squares_kernel<double> : squares_kernel<float>, "squares",
              threads, queue, partials, threads, x, count);
  sum_of<kExecutor>(sum, partials, threads, 1.0, write, queue);
}

}  // namespace ultra::kernels::generic
