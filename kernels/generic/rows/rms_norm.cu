// A warp for each row; for the weight's gradient a thread for each column of a part of the rows, then
// one for each column.

#include "kernels/generic/functions.cuh"
#include "kernels/generic/numbers.cuh"
#include "kernels/generic/rows/rows.hpp"
#include "kernels/generic/tree.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

template <typename T>
__global__ void rms_norm_kernel(RmsNorm of) {
  const std::size_t row = row_of_warp();
  if (row >= of.rows) {
    return;
  }
  const std::size_t begin = row * of.hidden;
  T squares = 0;
  for (std::size_t i = threadIdx.x % 32; i < of.hidden; i += 32) {
    const T value = load<T>(of.x, begin + i);
    squares += value * value;
  }
  const T mean = warp_sum(squares) / static_cast<T>(of.hidden);
  const T r = T(1) / square_root(mean + static_cast<T>(of.epsilon));
  for (std::size_t i = threadIdx.x % 32; i < of.hidden; i += 32) {
    const T value = load<T>(of.x, begin + i);
    store(of.y, begin + i, value * r * load<T>(of.weight, i));
  }
  if (threadIdx.x % 32 == 0) {
    store(of.reciprocal_rms, row, r);
  }
}

template <typename T>
__global__ void rows_backward_kernel(RmsNormBackward of) {
  const std::size_t row = row_of_warp();
  if (row >= of.rows) {
    return;
  }
  const std::size_t begin = row * of.hidden;
  T dot = 0;
  for (std::size_t i = threadIdx.x % 32; i < of.hidden; i += 32) {
    const T d_scaled = load<T>(of.d_y, begin + i) * load<T>(of.x, begin + i);
    dot += d_scaled * load<T>(of.weight, i);
  }
  const T r = load<T>(of.reciprocal_rms, row);
  const T mean = warp_sum(dot) * r * r / static_cast<T>(of.hidden);
  for (std::size_t i = threadIdx.x % 32; i < of.hidden; i += 32) {
    const T d_scaled = load<T>(of.d_y, begin + i) * load<T>(of.weight, i);
    store(of.d_x, begin + i, r * (d_scaled - load<T>(of.x, begin + i) * mean));
  }
}

template <typename T>
__global__ void parts_kernel(RmsNormBackward of, std::size_t parts, std::size_t rows_of_part) {
  const std::size_t thread = global_thread();
  if (thread >= parts * of.hidden) {
    return;
  }
  const std::size_t column = thread % of.hidden;
  const std::size_t first = thread / of.hidden * rows_of_part;
  const std::size_t end = first + rows_of_part < of.rows ? first + rows_of_part : of.rows;
  T sum = 0;
  for (std::size_t row = first; row < end; ++row) {
    const std::size_t index = row * of.hidden + column;
    const T d_scaled = load<T>(of.d_y, index) * load<T>(of.x, index);
    sum += d_scaled * load<T>(of.reciprocal_rms, row);
  }
  stg(static_cast<T*>(of.scratch) + thread, sum);
}

template <typename T, int levels>
__global__ void weight_kernel(RmsNormBackward of, std::size_t parts) {
  const std::size_t column = global_thread();
  if (column >= of.hidden) {
    return;
  }
  T sum = of.write == Write::kAdd ? load<T>(of.d_weight, column) : T(0);
  Nodes<T, levels> nodes;
  for (std::size_t part = 0; part < parts; ++part) {
    const T own = ldg(static_cast<const T*>(of.scratch) + part * of.hidden + column);
    if constexpr (levels == 1) {
      sum += own;
    } else {
      nodes.add(own);
    }
  }
  store(of.d_weight, column, levels == 1 ? sum : sum + nodes.take());
}

template <typename T>
void differentiate(const RmsNormBackward& of, const Queue& queue) {
  const std::size_t parts = weight_parts(of.rows, of.leaf);
  launch_rows(rows_backward_kernel<T>, "rms_norm_backward_rows", of.rows, queue, of);
  launch_each(parts_kernel<T>, "rms_norm_backward_parts", parts * of.hidden, queue, of, parts,
              of.leaf == kOneLeaf ? (of.rows + parts - 1) / parts : of.leaf);
  launch_each(of.leaf == kOneLeaf ? weight_kernel<T, 1> : weight_kernel<T, kMostLevels>,
              "rms_norm_backward_weight", of.hidden, queue, of, parts);
}

}  // namespace

template <>
void rms_norm<kExecutor>(const RmsNorm& of, const Queue& queue) {
  launch_rows(sums_in_f64(of.x.number) ? rms_norm_kernel<double> : rms_norm_kernel<float>,
              "rms_norm", of.rows, queue, of);
}

template <>
void rms_norm_backward<kExecutor>(const RmsNormBackward& of, const Queue& queue) {
  if (sums_in_f64(of.x.number)) {
    differentiate<double>(of, queue);
  } else {
    differentiate<float>(of, queue);
  }
}

}  // namespace ultra::kernels::generic
