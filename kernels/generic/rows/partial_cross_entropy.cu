// A warp for each row. The exchange between ranks stands between the three kernels, which each read the
// row once.

#include "kernels/generic/functions.cuh"
#include "kernels/generic/numbers.cuh"
#include "kernels/generic/partial_softmax.hpp"
#include "kernels/generic/tree.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

constexpr std::int32_t kNoTarget = -1;

// Where the target's logit is in the row; at or behind the part's end where another rank has it. The
// difference of unsigned numbers wraps around for tokens before the part.
__device__ __forceinline__ std::size_t place_of(const PartOfLogits& part, std::int32_t target) {
  return static_cast<std::size_t>(target) - part.first_token;
}

template <typename T>
__global__ void highest_kernel(PartOfLogits part, Target highest) {
  const std::size_t row = row_of_warp();
  if (row >= part.rows) {
    return;
  }
  T own = minus_infinity<T>();
  for (std::size_t i = threadIdx.x % 32; i < part.vocab; i += 32) {
    const T logit = load<T>(part.logits, row * part.columns + i);
    own = own < logit ? logit : own;
  }
  const T all = warp_max(own);
  if (threadIdx.x % 32 == 0) {
    store(highest, row, all);
  }
}

// Lanes have neighbouring leaves, of which 32 are a node.
template <typename T>
__device__ __forceinline__ T tree_of_row(const PartOfLogits& part, std::size_t begin) {
  Nodes<T, kMostLevels> nodes;
  for (std::size_t first = 0; first < part.vocab; first += 32 * part.leaf) {
    T leaf = 0;
    const std::size_t own = first + threadIdx.x % 32 * part.leaf;
    for (std::size_t i = own; i < own + part.leaf && i < part.vocab; ++i) {
      leaf += load<T>(part.logits, begin + i);
    }
    nodes.add(warp_tree_sum(leaf));
  }
  return nodes.take();
}

template <typename T, bool by_tree>
__global__ void exponentials_kernel(PartOfLogits part, Source highest, Target sums) {
  const std::size_t row = row_of_warp();
  if (row >= part.rows) {
    return;
  }
  const std::size_t lane = threadIdx.x % 32;
  const std::size_t begin = row * part.columns;
  const std::size_t wanted = place_of(part, ldg(&part.targets[row]));
  if (lane == 0) {
    store(sums, part.rows + row, wanted < part.vocab ? load<T>(part.logits, begin + wanted) : T(0));
  }
  __syncwarp();  // else lanes replace the target's logit before lane 0 has read it
  const T top = load<T>(highest, row);
  T own = 0;
  for (std::size_t i = lane; i < part.vocab; i += 32) {
    const T term = exponential(load<T>(part.logits, begin + i) - top);
    store(part.logits, begin + i, term);
    own += term;
  }
  T sum = 0;
  if constexpr (by_tree) {
    __syncwarp();  // a leaf's exponentials are other lanes'
    sum = tree_of_row<T>(part, begin);
  } else {
    sum = warp_sum(own);
  }
  if (lane == 0) {
    store(sums, row, sum);
  }
}

template <typename T>
__global__ void gradient_kernel(PartOfLogits part, PartialCrossEntropy of, T per_token) {
  const std::size_t row = row_of_warp();
  if (row >= part.rows) {
    return;
  }
  const std::size_t lane = threadIdx.x % 32;
  const std::size_t begin = row * part.columns;
  const std::int32_t target = ldg(&part.targets[row]);
  const bool counts = target != kNoTarget;
  const T sum = load<T>(of.sums, row);
  if (lane == 0) {
    const double loss = logarithm(static_cast<double>(sum)) +
                        static_cast<double>(load<T>(of.highest, row)) -
                        static_cast<double>(load<T>(of.sums, part.rows + row));
    // An exact sum is of what the loss is made of, whatever rows there are.
    const double share = of.partials == nullptr ? loss : loss / of.normalizer;
    stg(&of.scratch[row], counts ? share : 0.0);
  }
  const T factor = per_token / sum;
  const std::size_t wanted = place_of(part, target);
  for (std::size_t i = lane; i < part.vocab; i += 32) {
    const T share = load<T>(part.logits, begin + i) * factor;
    const T gradient = i == wanted ? share - per_token : share;
    store(part.logits, begin + i, counts ? gradient : T(0));
  }
}

}  // namespace

template <>
void highest_of_rows<kExecutor>(const PartOfLogits& part, const Target& highest,
                                const Queue& queue) {
  const auto kernel =
      sums_in_f64(part.logits.number) ? highest_kernel<double> : highest_kernel<float>;
  launch_rows(kernel, "highest_of_rows", part.rows, queue, part, highest);
}

template <>
void exponentials_of_rows<kExecutor>(const PartOfLogits& part, const Source& highest,
                                     const Target& sums, const Queue& queue) {
  const bool is_wide = sums_in_f64(part.logits.number);
  const auto kernel = part.leaf == kOneLeaf ? is_wide ? exponentials_kernel<double, false>
                                                      : exponentials_kernel<float, false>
                      : is_wide ? exponentials_kernel<double, true>
                                            : exponentials_kernel<float, true>;
  launch_rows(kernel, "exponentials_of_rows", part.rows, queue, part, highest, sums);
}

template <>
void partial_cross_entropy<kExecutor>(const PartOfLogits& part, const PartialCrossEntropy& of,
                                      const Queue& queue) {
  const double per_token = 1.0 / of.normalizer;
  if (sums_in_f64(part.logits.number)) {
    launch_rows(gradient_kernel<double>, "partial_cross_entropy", part.rows, queue, part, of,
                per_token);
  } else {
    launch_rows(gradient_kernel<float>, "partial_cross_entropy", part.rows, queue, part, of,
                static_cast<float>(per_token));
  }
  if (of.partials == nullptr) {
    sum_of<kExecutor>(of.loss, of.scratch, part.rows, per_token, of.write, queue);
  } else {
    exact_sum_of<kExecutor>(of.loss, {Number::kF64, of.scratch}, part.rows, Terms::kNumbers,
                            of.partials, of.write, queue);
  }
}

}  // namespace ultra::kernels::generic
