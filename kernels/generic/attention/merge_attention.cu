// A warp for each query of each head.

#include "kernels/generic/functions.cuh"
#include "kernels/generic/numbers.cuh"
#include "kernels/generic/partial_softmax.hpp"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

template <typename T>
__global__ void merge_attention_kernel(PartialAttentions of) {
  const std::size_t row = row_of_warp();  // of [batch, heads, seq]
  if (row >= of.batch * of.heads * of.seq) {
    return;
  }
  const T own = load<T>(of.log_sum_exp, row);
  const T part = load<T>(of.part_log_sum_exp, row);
  __syncwarp();  // all lanes have read what one of them writes below
  const T highest = own < part ? part : own;
  if (highest == minus_infinity<T>()) {
    return;
  }
  // Relative to the higher one no exponential overflows.
  const T log_sum = highest + logarithm(exponential(own - highest) + exponential(part - highest));
  const T keep = exponential(own - log_sum);
  const T add = exponential(part - log_sum);
  const std::size_t query = row % of.seq;
  const std::size_t head = row / of.seq % of.heads;
  const std::size_t sequence = row / of.seq / of.heads;
  const std::size_t begin = ((sequence * of.seq + query) * of.heads + head) * of.head_dim;
  for (std::size_t i = threadIdx.x % 32; i < of.head_dim; i += 32) {
    const T kept = keep * load<T>(of.output, begin + i);
    store(of.output, begin + i, kept + add * load<T>(of.part_output, begin + i));
  }
  if (threadIdx.x % 32 == 0) {
    store(of.log_sum_exp, row, log_sum);
  }
}

}  // namespace

template <>
void merge_attention<kExecutor>(const PartialAttentions& of, const Queue& queue) {
  const auto kernel = sums_in_f64(of.output.number) ? merge_attention_kernel<double>
                                                    : merge_attention_kernel<float>;
  launch_rows(kernel, "merge_attention", of.batch * of.heads * of.seq, queue, of);
}

}  // namespace ultra::kernels::generic
