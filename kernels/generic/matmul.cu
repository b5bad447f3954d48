// A thread for each element of the result.

#include "kernels/generic/matmul.hpp"

#include "kernels/generic/numbers.cuh"
#include "kernels/generic/tree.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

constexpr int kBlockColumns = 32;
constexpr int kBlockRows = 8;

// T is the factors' type, Sum the type in which sums are kept; levels are the tree's.
template <typename T, typename Sum, int levels>
__global__ void matmul_kernel(Matmul of, unsigned blocks_of_row) {
  const std::size_t column = std::size_t{blockIdx.x % blocks_of_row} * kBlockColumns + threadIdx.x;
  const std::size_t row = std::size_t{blockIdx.x / blocks_of_row} * kBlockRows + threadIdx.y;
  if (row >= of.rows || column >= of.columns) {
    return;
  }
  const T* a = static_cast<const T*>(of.a.data) + row * of.a_steps.row;
  const T* b = static_cast<const T*>(of.b.data) + column * of.b_steps.column;
  Nodes<Sum, levels> nodes;
  for (std::size_t rest = of.depth; rest > 0;) {
    const std::size_t terms = rest < of.leaf ? rest : of.leaf;
    Sum leaf = 0;
    for (std::size_t i = 0; i < terms; ++i) {
      const T left = ldg(a);
      const T right = ldg(b);
      leaf += widen(left) * widen(right);
      a += of.a_steps.column;
      b += of.b_steps.row;
    }
    nodes.add(leaf);
    rest -= terms;
  }
  Sum sum = nodes.take();
  const std::size_t index = row * of.out_stride + column;
  if (of.write == Write::kAdd) {
    sum += load<Sum>(of.out, index);
  }
  store(of.out, index, sum);
}

template <typename T, typename Sum>
void multiply(const Matmul& of, const Queue& queue) {
  const unsigned blocks_of_row = ceil_div(of.columns, kBlockColumns);
  launch(of.leaf == kOneLeaf ? matmul_kernel<T, Sum, 1> : matmul_kernel<T, Sum, kMostLevels>,
         {.name = "matmul",
          .grid = {.x = blocks_of_row * ceil_div(of.rows, kBlockRows)},
          .block = {.x = kBlockColumns, .y = kBlockRows},
          .queue = queue},
         of, blocks_of_row);
}

}  // namespace

template <>
void matmul<kExecutor>(const Matmul& of, const Queue& queue) {
  if (of.rows == 0 || of.columns == 0) {
    return;
  }
  switch (of.a.number) {
    case Number::kF64:
      return multiply<double, double>(of, queue);
    case Number::kBf16:
      return multiply<bf16, float>(of, queue);
    case Number::kF16:
      return multiply<half, float>(of, queue);
    default:
      return multiply<float, float>(of, queue);
  }
}

}  // namespace ultra::kernels::generic
